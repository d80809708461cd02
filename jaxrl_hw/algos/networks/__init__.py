"""Networks, action distributions and observation statistics."""
