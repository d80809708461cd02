"""The environments of Brax."""
