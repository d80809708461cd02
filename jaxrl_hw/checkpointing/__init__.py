"""A run outlives the process: its folder, its checkpoints, and how it is asked to stop."""
