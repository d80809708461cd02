"""A run's folder: checkpoints, lock, mirror, and a zip of it all."""
