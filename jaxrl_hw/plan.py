"""Print what a run would do and use, without training: python -m jaxrl_hw.plan --robot g1"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.flags import parse, taken
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import profiles
from jaxrl_hw.hardware.detect import Hardware, usable_cores
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.memory_table import Size, breakdown, sizes
from jaxrl_hw.planning.benchmark import probe
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.planning.planner import make_plan

_PROG = "python -m jaxrl_hw.plan"
_ABOUT = (
    "Print what a training with these flags would do and use, without training. --json prints it "
    "as data, --probe trains a few iterations with each size first, for its speed, --gpu NAME "
    "plans for a kind of device that is not here: "
    f"{', '.join(profile.name for profile in profiles.PROFILES[1:])}."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Takes the flags of `jaxrl_hw.train`; --json prints the plan as data, --probe measures the
    sizes' speeds first, --gpu NAME plans for a device that is not there."""

    def body() -> int:
        words = list(sys.argv[1:] if argv is None else argv)
        as_data = "--json" in words
        probing = "--probe" in words
        words = [word for word in words if word not in ("--json", "--probe")]
        gpu, words = taken(words, "gpu")
        if gpu is not None and probing:
            raise UserError(f"--probe trains on this machine: leave --gpu {gpu} out")
        with Console(sys.stderr if as_data else None) as console:
            plan = _elsewhere(gpu, words) if gpu is not None else _here(words, console, probing)
        if as_data:
            print(json.dumps(plan.to_dict(), indent=2))
        else:
            _show(plan)
        return DONE

    return run_command(body)


def _here(words: list[str], console: Console, probing: bool) -> Plan:
    """This machine's plan; where too little is known of the program, the compiler is asked."""
    config = parse(words, _PROG, _ABOUT)
    plan = make_plan(config)
    if probing:  # a process each: the device is theirs as long as this one has not opened it
        probe(plan, console.message)
        plan = make_plan(config)
    if plan.footprint.covers_all_sizes:
        return plan
    with console.compiling("asking the compiler what the program needs (once)"):
        from jaxrl_hw.hardware import xla
        from jaxrl_hw.training.measure import measure

        xla.apply_pending()
        measure(plan.config, plan.hardware)
    # XLA's settings are those of a process that has not begun to compile
    return replace(make_plan(config, plan.hardware), xla=plan.xla, warnings=plan.warnings)


def _elsewhere(name: str, words: list[str]) -> Plan:
    """The plan for a kind of device, all of its memory free."""
    config = parse(words, _PROG, _ABOUT)
    if config.physics == "native":
        raise UserError(f"--gpu {name} runs --physics mjx: leave --physics native out")
    profile = profiles.named(name)
    hardware = Hardware(
        platform=profile.platform,
        name=profile.device,
        count=1,
        cores=usable_cores(),
        memory_total=profile.memory,
        memory_free=profile.memory,
        memory_source=f"the data sheet of {profile.name}",
        notes=_estimate(profile),
    )
    return make_plan(replace(config, physics="mjx"), hardware)


def _estimate(profile: profiles.Profile) -> tuple[str, ...]:
    kind = profile.device
    lines = [f"an estimate: no {kind} was looked at, and its whole memory is taken to be free"]
    if profile.preset != "optimized":
        lines.append(f"--preset {profile.preset} suits a {kind}")
    return tuple(lines)


def _show(plan: Plan) -> None:
    with Console() as console:
        console.plan(plan.rows(), plan.warnings)
        console.show(breakdown(plan.memory))
        rows = [
            Size(c.num_envs, c.expected_bytes, c.verdict, c.steps_per_s, c.num_envs == chosen)
            for chosen in [plan.config.num_envs]
            for c in plan.sizing.candidates
        ]
        console.show(sizes(rows))


if __name__ == "__main__":
    sys.exit(main())
