"""What the compiler says that a program will allocate, before anything is."""

from __future__ import annotations

from typing import Any, NamedTuple


class ProgramMemory(NamedTuple):
    """Bytes of one execution of a compiled program, by XLA's own buffer assignment."""

    outputs: int
    """Results that reuse no argument's memory."""
    temporaries: int
    """What lives only while it runs."""
    code: int
    """The program itself; 0 where the backend does not tell (a CPU)."""


def program_memory(compiled: Any) -> ProgramMemory | None:
    """The figures of a `jax.stages.Compiled`; None where its backend gives none.

    Figures stay as they are.
    """
    if isinstance(compiled, ProgramMemory):
        return compiled
    try:
        stats = compiled.memory_analysis()
        outputs = stats.output_size_in_bytes - stats.alias_size_in_bytes
        temporaries, code = stats.temp_size_in_bytes, stats.generated_code_size_in_bytes
    except Exception:  # plugins leave it out in ways of their own
        return None
    return ProgramMemory(max(0, int(outputs)), int(temporaries), int(code))


def tree_bytes(tree: Any) -> int:
    """Bytes of all arrays of a tree, or of their jax.ShapeDtypeStructs."""
    import jax

    return sum(_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _bytes(leaf: Any) -> int:
    import jax
    import jax.numpy as jnp

    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.eval_shape(jax.random.key_data, leaf)
    return int(leaf.size) * int(leaf.dtype.itemsize)
