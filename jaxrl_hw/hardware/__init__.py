"""What the machine has and what a run may use of it: memory, cores, and XLA's settings.

`xla` and `detect` work before jax is imported and never import it themselves.
"""
