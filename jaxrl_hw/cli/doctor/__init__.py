"""An installation checked, one check after the other, each with what was measured.

Nothing here imports JAX, MuJoCo or NumPy into the process that asks: what may hang or crash is
called in a process of its own (`apart`). Start reading at `checks`.
"""
