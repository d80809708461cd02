"""The plan command: a run's plan for this machine, or for a kind of device that is not here."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from jaxrl_hw.cli.command import DONE
from jaxrl_hw.cli.flags import parse_layers, taken
from jaxrl_hw.cli.plan_cards import cards_notes, cards_table, plan_cards
from jaxrl_hw.cli.settings_help import Command
from jaxrl_hw.config.origins import DEFAULT, Layer, Origin, origins
from jaxrl_hw.config.resolve import of_seed, seed_folders
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import compilers, profiles
from jaxrl_hw.hardware.detect import Hardware, usable_cores
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.memory_table import breakdown, sizes
from jaxrl_hw.loggers.origins_table import origins_table
from jaxrl_hw.planning.benchmark import probe
from jaxrl_hw.planning.memory_model import ESTIMATED
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.planning.planner import make_plan

_COMMAND = Command(
    "python -m jaxrl_hw.plan",
    "Print what a training with these flags would do and use, without training.",
    (
        "python -m jaxrl_hw.plan --robot g1",
        "python -m jaxrl_hw.plan --robot g1 --gpu t4,l4 --compile",
    ),
    {
        "--json": "Print the plan as data.",
        "--probe": "First train a few iterations with each size, for its speed.",
        "--gpu NAME[,NAME ...]": "Plan for a kind of device that is not here: "
        f"{', '.join(profile.name for profile in profiles.PROFILES[1:])}. Several are compared.",
        "--compile": "Have XLA's compiler measure the program for that device, in minutes.",
    },
)
_SWITCHES = ("--json", "--probe", "--compile")


def print_plan(argv: Sequence[str]) -> int:
    """Make the plan and print it; the exit code.

    Raises:
      UserError: a flag that cannot be used, or a run that does not fit.
    """
    as_data, probing, compiling = (flag in argv for flag in _SWITCHES)
    gpu, words = taken([word for word in argv if word not in _SWITCHES], "gpu")
    with Console(sys.stderr if as_data else None) as console:
        if gpu is None and compiling:
            raise UserError("--compile is for a card that is not here: add --gpu NAME")
        if gpu is None:
            layers = _layers(words)
            config = layers[-1].config
            plan = _plan_here(_first(config), console, probing)
            asked = replace(plan.config, run_dir=config.run_dir, mirror=config.mirror)
            plan = replace(plan, origins=_origins(layers, replace(plan, config=asked)))
        elif "," in gpu and not probing:
            return _compare(gpu.split(","), words, console, compiling, as_data)
        elif probing:
            raise UserError(f"--probe trains on this machine: leave --gpu {gpu} out")
        else:
            plan = _plan_elsewhere(gpu, words, console, compiling)
    if as_data:
        print(json.dumps(plan.to_dict(), indent=2))
        return DONE
    with Console() as console:
        console.plan(plan.rows(), plan.warnings)
        device = plan.hardware.memory_total
        console.show(breakdown(plan.memory, device, each=plan.of_each_seed))
        if plan.by_part:
            console.show(breakdown(plan.by_part, device, "by part"))
        console.show(sizes(plan.sizing.candidates, plan.sizing.num_envs))
        console.show(origins_table(plan.origins))
    return DONE


def _compare(
    names: list[str], words: list[str], console: Console, compiling: bool, as_data: bool
) -> int:
    """Print the plans for several cards side by side; the exit code."""
    cards = plan_cards(names, lambda name: _plan_elsewhere(name, words, console, compiling))
    if as_data:
        plans = {
            profile.name: {"problem": problem} if plan is None else plan.to_dict()
            for profile, plan, problem in cards
        }
        print(json.dumps(plans, indent=2))
        return DONE
    config = next(card.plan.config for card in cards if card.plan is not None)
    console.message(f"{config.env or config.robot}, {config.algo}")
    console.show(cards_table(cards))
    for note in cards_notes(cards):
        console.message(note)
    return DONE


def _layers(words: list[str], hardware: Hardware | None = None) -> list[Layer]:
    return parse_layers(words, _COMMAND, hardware)


def _origins(layers: list[Layer], plan: Plan) -> dict[str, Origin]:
    """What the settings of a plan are, and where from, but for those at their defaults.

    layers: of the command line; the plan is one more.
    """
    settled = "the run so far" if plan.iterations_done else f"for the {plan.hardware.name}"
    found = origins([*layers, Layer(settled, plan.config)])
    return {key: one for key, one in found.items() if one.origin != DEFAULT}


def _first(config: Config) -> Config:
    """The config of the run that stands for all: the first one of several seeds."""
    if config.seeds == 1:
        return config
    last = config.seed + config.seeds - 1
    return of_seed(config, config.seed, seed_folders(config, (config.seed, last))[0])


def _plan_here(config: Config, console: Console, probing: bool) -> Plan:
    """This machine's plan; the compiler measures a program of which too little is known."""
    plan = make_plan(config)
    if probing:  # in processes of their own, before this one opens the device
        probe(plan, console.message)
        plan = make_plan(config)
    if plan.footprint.covers_all_sizes:
        return plan
    with console.compiling("measuring the program with the compiler (once)"):
        from jaxrl_hw.hardware import xla
        from jaxrl_hw.training.measure import measure

        xla.apply_pending()
        measure(plan.config, plan.hardware)
    # the XLA settings are those of a process that has not compiled yet
    return replace(make_plan(config, plan.hardware), xla=plan.xla, warnings=plan.warnings)


def _plan_elsewhere(name: str, words: list[str], console: Console, compiling: bool) -> Plan:
    """The plan for a kind of device with all of its memory free.

    The run in the default folder was sized for this machine: without --run-dir the plan is of a new
    run.

    compiling: whether the compiler is to measure the program for it, if it has not yet.
    """
    profile = profiles.named(name)
    anew = taken(words, "run-dir")[0] is None and taken(words, "resume")[0] is None
    card = _all_free(profile, 1)
    layers = _layers([*words, "--resume", "never"] if anew else words, card)
    config = layers[-1].config
    if anew and config.run_dir:  # of --config FILE
        anew, layers = False, _layers(words, card)
        config = layers[-1].config
    if config.physics == "native":
        raise UserError(f"--gpu {name} runs on the card: leave --physics native out")
    if config.physics == "warp" and compiling:
        raise UserError("--compile measures --physics mjx: XLA's compiler does not see Warp")
    if config.devices and compiling:
        raise UserError(f"--compile measures one card: leave --devices {config.devices} out")
    engine = config.physics if config.physics == "warp" else "mjx"
    count = config.devices if isinstance(config.devices, int) else 1
    config, hardware = replace(config, physics=engine), _all_free(profile, count)
    plan = make_plan(config, hardware)
    if compiling:
        compilers.of(profile.name).target(profile.name)
        if not plan.footprint.covers_all_sizes:
            _compile(plan, profile, console)
            plan = make_plan(config, hardware)
    plan = replace(plan, warnings=(*plan.warnings, *_notes(profile, plan)))
    if anew:
        plan = replace(plan, config=replace(plan.config, resume="auto"))
        given = set(layers[-1].given) - {"resume"}  # said by this function, not by the user
        asked = replace(layers[-1].config, resume="auto")
        layers[-1] = layers[-1]._replace(config=asked, given=given)
    return replace(plan, origins=_origins(layers, plan))


def _compile(plan: Plan, profile: profiles.Profile, console: Console) -> None:
    """Have the compiler measure the plan's program for a card."""
    compilers.of(profile.name).check_installed()
    from jaxrl_hw.training.gpu_figures import measured

    with console.compiling(f"compiling for a {profile.device} (once)"):
        measured(plan.config, plan.hardware, profile.name)


def _all_free(profile: profiles.Profile, count: int) -> Hardware:
    return Hardware(
        platform=profile.platform,
        name=profile.device,
        count=count,
        cores=usable_cores(),
        memory_total=profile.memory,
        memory_free=profile.memory,
        memory_source=f"the data sheet of {profile.name}",
    )


def _notes(profile: profiles.Profile, plan: Plan) -> list[str]:
    """What the figures of a device that is not here rest on."""
    device, source = profile.device, plan.footprint.source
    kind = "an estimate" if source == ESTIMATED else f"{source}, and an estimate of its driver"
    notes = [f"{kind}: no {device} is here, and all of its memory counts as free"]
    if profile.preset not in ("optimized", plan.config.preset):
        notes.append(f"--preset {profile.preset} suits a {device}")
    return notes
