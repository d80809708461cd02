"""A plan's memory once more, by what the learner consists of: replay, actor, critics and so on."""

from __future__ import annotations

from collections.abc import Mapping

from jaxrl_hw.types import Needs

OPTIMIZER, BATCH = "optimizer", "batch and gradients"
"""The names in `Needs.parts` of what are no networks."""


def by_part(memory: Mapping[str, int], needs: Needs, seeds: int = 1) -> dict[str, int]:
    """The same bytes under the names of the learner's parts; empty where it names none.

    "environments" has what collecting takes, the rollout and physics included; "overhead" is what
    belongs to neither: driver or libraries, the program, the normalizer, copies for a checkpoint.

    memory: a plan's items, of all seeds. needs: of its algorithm.
    """
    networks = {name: size for name, size in needs.parts if name not in (OPTIMIZER, BATCH)}
    whole = sum(networks.values())
    if not whole:
        return {}
    batch = min(seeds * dict(needs.parts).get(BATCH, 0), memory["temporaries"])
    found = {"replay": memory["replay"]}
    found |= {name: memory["networks"] * size // whole for name, size in networks.items()}
    found |= {OPTIMIZER: memory["optimizer"], BATCH: batch}
    collecting = ("environments", "rollout", "temporaries", "physics")
    found["environments"] = sum(memory.get(name, 0) for name in collecting) - batch
    return {**found, "overhead": sum(memory.values()) - sum(found.values())}
