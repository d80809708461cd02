"""What several processes agree on before they train one run: settings, size, JAX's connection.

Process 0 owns the run: it reads and writes the folder, prints and decides. The others follow its
settings. What they write goes into a folder that is thrown away.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from jaxrl_hw.checkpointing.provenance import package_versions
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.fields import differences, flag
from jaxrl_hw.config.resolve import run_folder
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware, detect
from jaxrl_hw.hardware.processes import Processes
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.planning.planner import make_plan
from jaxrl_hw.training.group import Group
from jaxrl_hw.training.star import Star

_OF_THIS_MACHINE = ("threads", "mem_fraction", "memory_limit")
_NEED_NOT_AGREE = ("run_dir", "mirror", "tensorboard", "profile", *_OF_THIS_MACHINE)
_FIRST = "the settings of process 0"
_COMPUTING = ("jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang")
_UNUSED: dict[str, Any] = {
    "mirror": "",
    "tensorboard": False,
    "profile": 0,
    "eval_every": 0,
    "early_stop": "",
    "resume": "never",
    "init_from": "",
    "wandb": "off",
}
"""Settings of all but the first process: what these are for is the first one's work."""


def joined(processes: Processes, config: Config) -> Star:
    """All processes of a run, connected. They have the same settings, versions and devices.

    config: as this process was asked for.
    Raises UserError where one is missing, or differs.
    """
    here = detect()
    port = _free_port() if processes.index == 0 else 0
    star = Star(
        processes,
        {
            "config": validation.to_dict(config),
            "saved": RunDir(run_folder(config)).newest_checkpoint(),
            "versions": {n: v for n, v in package_versions().items() if n in _COMPUTING},
            "platform": here.platform,
            "devices": here.count,
            "port": port,
        },
    )
    if star.is_first:
        with contextlib.ExitStack() as stack:
            stack.push(star)  # tells the others why, where they differ
            _check_same(star.hellos)
            stack.pop_all()
    return star


def as_follower(config: Config, star: Star) -> Config:
    """The config of any other process: that of the first, in a folder of its own.

    config: as this process was asked for. Waits until the first process has settled its own.
    """
    first = validation.from_dict(star.decided(None), config, _FIRST)
    own = {name: getattr(config, name) for name in _OF_THIS_MACHINE}
    return replace(first, **_UNUSED, **own, run_dir=str(star.scratch))


def tell(group: Group, plan: Plan) -> None:
    """Tell the others the settings that the first process has settled (`as_follower`)."""
    if group.is_first:
        group.decided(validation.to_dict(plan.config))


def plan_of(group: Group, config: Config, hardware: Hardware | None = None) -> Plan:
    """This process's plan; with as many environments as it can hold, where the first process's
    number is too many here."""
    make = partial(make_plan, hardware=hardware, processes=group.number)
    try:
        return make(config)
    except UserError:
        if group.is_first:
            raise
    return make(replace(config, num_envs="auto"))


def agreed_plan(group: Group, plan: Plan, config: Config) -> Plan:
    """The plan with as many environments as fit on every machine.

    plan: of this process.
    config: that it was made from.
    Raises UserError where the number is the user's, and does not fit.
    """
    if group.number == 1:
        return plan
    numbers = group.round(int(plan.config.num_envs))
    if group.is_first and min(numbers) < numbers[0]:
        least = min(numbers)
        if config.num_envs != "auto":
            raise UserError(
                f"process {numbers.index(least)} can hold its part of {least:,} environments, not "
                f"of {numbers[0]:,}: use --num-envs {least}"
            )
        plan = make_plan(replace(config, num_envs=least), plan.hardware)
    settled = as_settled(group, plan.config)
    return plan if group.is_first else make_plan(settled, plan.hardware)


def as_settled(group: Group, config: Config) -> Config:
    """The config that the first process has now, but for what is this process's own."""
    if group.number == 1:
        return config
    settled = group.decided(validation.to_dict(config))
    if group.is_first:
        return config
    own = {name: getattr(config, name) for name in (*_UNUSED, *_OF_THIS_MACHINE, "run_dir")}
    return replace(validation.from_dict(settled, config, _FIRST), **own)


@contextlib.contextmanager
def jax_joined(group: Group) -> Iterator[None]:
    """JAX of all processes as one, until the end; before it opens a device."""
    if not isinstance(group, Star):
        yield
        return
    import jax

    processes = group.processes
    address = f"{processes.host}:{group.hellos[0]['port']}"
    # it would take SIGTERM over from `stopping`
    jax.config.update("jax_enable_preemption_service", False)
    # JAX's own watch ends a process with an abort: it is the last resort
    watch_s = int(2 * processes.timeout_s) + 60
    jax.distributed.initialize(
        address,
        processes.number,
        processes.index,
        cluster_detection_method="deactivate",
        initialization_timeout=int(processes.timeout_s) + 60,
        heartbeat_timeout_seconds=watch_s,
    )
    yield
    group.round(None)
    jax.distributed.shutdown()


def _check_same(hellos: list[dict[str, Any]]) -> None:
    """Raises UserError where a process differs from the first."""
    first = hellos[0]
    for said in hellos[1:]:
        name = f"process {said['index']} on {said['host']}"
        changed = differences(first["versions"], said["versions"])
        if changed:
            raise UserError(f"{name} has {_text(changed)}; install the same versions everywhere")
        if said["platform"] != first["platform"]:
            raise UserError(
                f"{name} computes on a {said['platform']}, process 0 on a {first['platform']}: "
                "train on machines of one kind"
            )
        changed = differences(first["config"], said["config"], _NEED_NOT_AGREE)
        # without the run's folder a process does not know what the run was saved with
        if changed and said["saved"] == first["saved"]:
            settings = [(flag(key), old, new) for key, old, new in changed]
            raise UserError(f"{name} has {_text(settings)}; give all processes the same flags")
    counts = [said["devices"] for said in hellos]
    if first["config"]["devices"] in ("", "all") and len(set(counts)) > 1:
        raise UserError(
            f"the processes have {', '.join(map(str, counts))} devices; "
            f"--devices {min(counts) * len(counts)} takes {min(counts)} of each"
        )


def _text(changed: list[tuple[str, Any, Any]]) -> str:
    shown = [f"{key} {new!r} where process 0 has {old!r}" for key, old, new in changed[:3]]
    more = len(changed) - len(shown)
    return "; ".join(shown) + (f" and {more} more" if more else "")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])
