"""Settings that a user gives although nothing reads them are refused."""

from __future__ import annotations

from collections.abc import Iterable

from jaxrl_hw.algos.registry import Circumstances, algorithm_entry, entries
from jaxrl_hw.config.fields import flag
from jaxrl_hw.config.resolve import discrete_count, task_name, task_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks import task_entry, task_sizes
from jaxrl_hw.errors import UserError

_SIZES = {"net.history": "history", "net.gru": "gru"}
"""Settings that say how large a memory is, and of which kind."""


def refuse_idle(config: Config, given: Iterable[str]) -> None:
    """Raises UserError where one of the settings that were given has no effect on the run.

    given: dotted keys.
    """
    entry = algorithm_entry(config.algo)
    own = getattr(config, entry.name)
    ignored = (*(f"{name}." for name in entries() if name != entry.name), *entry.ignores)
    ignored += () if entry.with_replay else ("save_replay",)
    idle = {f"{entry.name}.{k}": why for k, why in entry.idle(own, circumstances(config)).items()}
    for key in given:
        if key.startswith(ignored):
            raise UserError(
                f"{flag(key)} has no effect with --algo {config.algo}: leave it out, or choose "
                "another --algo"
            )
        if key == "net.memory" and config.net.memory not in entry.memories:
            raise UserError(
                f"--net.memory {config.net.memory} does not go with --algo {config.algo}: it must "
                f"be {' or '.join(entry.memories)}"
            )
        if _SIZES.get(key, config.net.memory) != config.net.memory:
            idle[key] = f"with --net.memory {config.net.memory}: add --net.memory {_SIZES[key]}"
        if key in idle:
            raise UserError(f"{flag(key)} has no effect {idle[key]}, or leave it out")


def circumstances(config: Config) -> Circumstances:
    """What the config's algorithm is checked against."""
    robot, task = get_robot(config.robot), task_name(config)
    seen, critic, _ = task_sizes(task, robot, task_settings(config))
    return Circumstances(
        config.net,
        discrete_count(config),
        config.devices != "",
        task_entry(task).has_motion,
        robot.mirror is not None,
        critic > seen,
    )
