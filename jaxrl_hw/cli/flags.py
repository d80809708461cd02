"""The command line of `jaxrl_hw.train`: every field of Config as a flag, through tyro."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from jaxrl_hw.algos.registry import algorithm_entry, load_algorithm
from jaxrl_hw.checkpointing.mirror import locate_run
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.process_flags import PROCESS_FLAGS
from jaxrl_hw.cli.settings_help import Command, settings_help
from jaxrl_hw.cli.tyro_rules import Words, rules
from jaxrl_hw.config import migrations, validation
from jaxrl_hw.config.fields import (
    MISSING,
    Setting,
    differences,
    flag,
    flatten,
    settings_of,
    with_values,
)
from jaxrl_hw.config.idle import refuse_idle
from jaxrl_hw.config.origins import COMMAND_LINE, DEFAULT, Layer
from jaxrl_hw.config.presets import AUTO, preset_config, suiting
from jaxrl_hw.config.resolve import run_folder, seed_folders
from jaxrl_hw.config.saved import config_from, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import environment_entry, load_robot
from jaxrl_hw.errors import UserError, unknown_flag
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.planning.disk_space import mirror_of
from jaxrl_hw.policies.sources import like_origin

TRAINING = Command(
    "python -m jaxrl_hw.train",
    "Train a legged robot. The same command, run again, continues where the run stopped.",
    (
        "python -m jaxrl_hw.train --robot g1 --num-envs auto",
        "python -m jaxrl_hw.train --robot go1 --timesteps 20M --time-limit 85m",
    ),
    {
        "--smoke": "Only check, in a temporary folder, that two iterations train, are saved, "
        "continue and can be evaluated.",
        **PROCESS_FLAGS,
    },
)


def parse(
    argv: Sequence[str], command: Command = TRAINING, hardware: Hardware | None = None
) -> Config:
    """The config that a command line asks for; see `parse_layers`."""
    return parse_layers(argv, command, hardware)[-1].config


def parse_layers(
    argv: Sequence[str], command: Command = TRAINING, hardware: Hardware | None = None
) -> list[Layer]:
    """The config that a command line asks for, as the last of the layers that it is made of.

    Defaults come from the run that is already in the run folder, else from the preset; a
    `--config` file overlays them, and flags overlay the file. `command` heads the help;
    `--preset auto` is the one that suits `hardware`, by default what is here.
    A robot of the user's own is imported where `--robot` names it, never where a file does.

    Raises:
      UserError: an unknown flag or a value that cannot be used, in one line.
      SystemExit: after printing the help (code 0).
    """
    # --num_envs=8 is --num-envs=8; values stay as they are
    argv = [re.sub(r"^--[\w.-]+", lambda m: m[0].replace("_", "-"), word) for word in argv]
    path, rest = taken(argv, "config")
    from_file = validation.load_file(Path(path)) if path is not None else {}
    robot = taken(rest, "robot")[0]
    if robot is not None:
        load_robot(robot)
    if env := taken(rest, "env")[0]:
        environment_entry(env)
    algo = taken(rest, "algo")[0]
    if algo is not None:
        load_algorithm(algo)
    layers = _base(rest, from_file, hardware)
    base = layers[-1].config
    if taken(rest, "preset")[0] == AUTO:  # the base has it
        rest = taken(rest, "preset")[1]
    from_file = {k: v for k, v in from_file.items() if (k, v) != ("preset", AUTO)}
    changes = differences(validation.to_dict(base), from_file) if from_file else ()
    given = [key for key, _, value in changes if value != MISSING]
    if from_file:
        base = _with_one_goal(validation.from_dict(from_file, base, f"--config {path}"), from_file)
        layers.append(Layer(f"file {path}", base, given))
    base = _with_one_goal(base, {name: True for name in _GOALS if taken(rest, name)[0] is not None})
    if {"-h", "--help"} & set(rest):
        print(settings_help(command, base))
        raise SystemExit(0)
    config = validation.check(_overlaid(base, rest))
    flags = _given(rest, config)
    refuse_idle(config, [*given, *flags])
    return [*layers, Layer(COMMAND_LINE, config, flags)]


def _given(argv: Sequence[str], config: Config) -> list[str]:
    """The keys of the settings that flags name."""
    words = (word[2:].split("=")[0].replace("-", "_") for word in argv if word.startswith("--"))
    known = settings_of(type(config))
    plain = (w if w in known else re.sub(r"(^|\.)no_(\w+)$", r"\1\2", w) for w in words)
    return [key for key in plain if key in known]


_GOALS = ("timesteps", "iterations")


def _with_one_goal(config: Config, given: Mapping[str, Any]) -> Config:
    """The config without the goal that its preset or an earlier session had, where a command line
    or a file gives one of the two goals alone."""
    left_out = [name for name in _GOALS if name not in given]
    return with_values(config, dict.fromkeys(left_out, 0)) if len(left_out) == 1 else config


def _base(argv: list[str], from_file: dict[str, Any], hardware: Hardware | None) -> list[Layer]:
    """The layers that flags overlay: the run to continue, or a preset, above the defaults."""

    def named(name: str, default: str) -> str:
        value = taken(argv, name)[0]
        return str(from_file.get(name.replace("-", "_"), default)) if value is None else value

    seed = named("seed", "0")
    env = named("env", "")
    if env and taken(argv, "robot")[0] is not None:
        raise UserError(f"--env {env} takes the place of --robot: give one of them")
    start = Config(
        env=env,
        robot=named("robot", Config.robot),
        task=named("task", Config.task),
        algo=named("algo", Config.algo),
        run_dir=named("run-dir", ""),
        seed=int(seed) if seed.isdecimal() else 0,
    )
    preset = named("preset", Config.preset)
    if preset == AUTO and hardware is not None:
        preset = suiting(hardware)
    fresh = preset_config(start.robot, preset, start.task, start.algo, start.env)
    defaults = Layer(DEFAULT, type(fresh)())
    path, mirror = run_folder(start), named("mirror", "")
    seeds = named("seeds", "1")
    if seeds.isdecimal() and int(seeds) > 1:  # the first one's run stands for all
        path = seed_folders(start, (start.seed, start.seed + int(seeds) - 1))[0]
        mirror = mirror and str(Path(mirror) / path.parent.name)
    folder = locate_run(RunDir(path), mirror_of(mirror, path))
    new = named("resume", "auto") == "never" or not folder.newest_checkpoint()
    saved = None if new else read_settings(folder)
    if saved is None:
        source, layers = named("init-from", ""), [defaults]
        if named("preset", "") == AUTO:
            suits = replace(defaults.config, preset=fresh.preset)
            layers.append(Layer("the card's profile", suits, ("preset",)))
        layers.append(Layer(f"preset {fresh.preset}", fresh))
        return [*layers, Layer(f"policy {source}", like_origin(fresh, source))]
    ran = algorithm_entry(str(saved.get("algo", Config.algo))).name
    asked = algorithm_entry(named("algo", ran)).name
    if asked != ran:
        raise UserError(
            f"{folder.path} holds another run: algo was {ran}, now {asked}; choose another "
            f"--run-dir, or --algo {ran}"
        )
    # so that the same command continues the same run even where a preset has changed since
    config = config_from(saved, str(folder.config_json))
    # the run may have moved to another machine: planning chooses the engine, and keeps the size as
    # long as it fits
    again = replace(config, time_limit="", resume="auto", override_config=False)
    again = replace(again, quiet=False, log_format="rich", seeds=1)  # of a session, not of the run
    again = replace(again, physics="auto", num_envs="auto", run_dir=start.run_dir)
    return [Layer(DEFAULT, type(again)()), Layer(f"run {folder.path}", again)]


def taken(argv: Sequence[str], name: str) -> tuple[str | None, list[str]]:
    """The value of `--name VALUE` or `--name=VALUE` (the last one wins), and what is left."""
    parser = OneLineParser(add_help=False)
    parser.add_argument(f"--{name}", dest="value")
    found, rest = parser.parse_known_args(argv)
    return found.value, rest


def _overlaid(base: Config, argv: list[str]) -> Config:
    """The config with what the flags say. Raises UserError."""
    import tyro

    known = settings_of(type(base))
    found, left = tyro.cli(
        type(base),
        args=argv,
        default=base,
        registry=rules(),
        return_unknown_args=True,
    )
    values = flatten(cast(dict[str, Any], found))
    words = {key: v for key, v in values.items() if isinstance(v, Words)}
    left += [word for key in words if not known[key].is_list for word in words[key][1:]]
    if left:
        raise _unknown(left[0], known)
    return with_values(base, {**values, **{key: known[key].read(words[key]) for key in words}})


def _unknown(word: str, known: Mapping[str, Setting]) -> UserError:
    """The error for a word that tyro cannot place."""
    if not word.startswith("--"):
        text = "settings are given as --name value, --help lists them"
        return UserError(f'unexpected argument "{word}"; {text}')
    name = word.split("=")[0]
    key = re.sub(r"(^|\.)no_", r"\1", name[2:].replace("-", "_"))
    if hint := migrations.successor(key, as_flag=True):
        return UserError(f'unknown flag "{name}"{hint}')
    switches = (re.sub(r"(\w+)$", r"no_\1", key) for key in known if known[key].hint is bool)
    return unknown_flag(name, ["--help", "--config", *map(flag, [*known, *switches])])
