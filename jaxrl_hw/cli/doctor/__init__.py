"""The checks of `jaxrl_hw.doctor`. Start reading at `checks`.

Nothing here imports JAX, MuJoCo or NumPy into the process of the command: what may hang or crash
runs in a process of its own (`run_in_subprocess`).
"""
