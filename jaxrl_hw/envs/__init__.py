"""Robots, physics engines and tasks, and many of them side by side."""
