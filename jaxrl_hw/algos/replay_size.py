"""How many bytes a transition takes in a replay. Without jax."""

FINALS = 16
"""A replay keeps one final observation for so many transitions. With episodes shorter than that,
all cut by a time limit, some are lost, and the transitions that need them are left out."""
_FLAGS = 4 + 1 + 4
"""Bytes of a reward, of whether the episode terminated, of the number of a final observation."""


def transition_bytes(numbers: int, action: int, dtype: str) -> int:
    """Bytes of a transition, its share of the final observations included.

    numbers: of an observation. action: entries of an action. dtype: of observations.
    """
    width = 4 if dtype == "float32" else 2
    return -(-width * numbers * (FINALS + 1) // FINALS) + 4 * action + _FLAGS
