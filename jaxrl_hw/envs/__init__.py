"""Tasks: what a robot sees, what it is rewarded for, when an episode ends, what varies."""
