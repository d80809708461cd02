"""One run: from a plan to its last checkpoint."""
