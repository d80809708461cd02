"""The command line of `jaxrl_hw.train`: every field of Config as a flag, through tyro."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.mirror import locate_run
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.tyro_rules import rules
from jaxrl_hw.config import migrations, validation
from jaxrl_hw.config.fields import flag, settings_of, value_at
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.resolve import run_folder
from jaxrl_hw.config.saved import config_from, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import load_robot
from jaxrl_hw.errors import UserError, unknown, unknown_flag
from jaxrl_hw.planning.disk_space import mirror_of
from jaxrl_hw.policies.sources import like_origin

_SHORT = re.compile(r"^--(?P<name>[\w.-]+)(?:=(?P<value>.*))?$", re.DOTALL)

TRAINING = "Train a legged robot. The same command, run again, continues where the run stopped."


def parse(
    argv: Sequence[str], prog: str = "python -m jaxrl_hw.train", about: str = TRAINING
) -> Config:
    """The config that a command line asks for.

    Defaults come from the run that is already in the run folder, else from the preset; a
    `--config` file overlays them, and flags overlay the file. prog and about head the help.
    A robot of the user's own is imported where `--robot` names it, never where a file does.

    Raises:
      UserError: an unknown flag or a value that cannot be used, in one line.
      SystemExit: after printing the help (code 0).
    """
    argv = [_hyphens(word) for word in argv]
    path, rest = taken(argv, "config")
    from_file = validation.load_file(Path(path)) if path is not None else {}
    robot = taken(rest, "robot")[0]
    if robot is not None:
        load_robot(robot)
    base = _base(rest, from_file)
    if from_file:
        base = validation.from_dict(from_file, base, f"--config {path}")
    return validation.check(_tyro(rest, base, prog, about))


def _base(argv: list[str], from_file: dict[str, Any]) -> Config:
    """The config that flags overlay: that of the run to continue, or a preset."""

    def named(name: str, default: str) -> str:
        value = taken(argv, name)[0]
        return str(from_file.get(name.replace("-", "_"), default)) if value is None else value

    seed = named("seed", "0")
    start = Config(
        robot=named("robot", Config.robot),
        task=named("task", Config.task),
        algo=named("algo", Config.algo),
        run_dir=named("run-dir", ""),
        seed=int(seed) if seed.isdecimal() else 0,
    )
    fresh = preset_config(start.robot, named("preset", Config.preset), start.task, start.algo)
    path = run_folder(start)
    folder = locate_run(RunDir(path), mirror_of(named("mirror", ""), path))
    new = named("resume", "auto") == "never" or not folder.newest_checkpoint()
    saved = None if new else read_settings(folder)
    if saved is None:
        return like_origin(fresh, named("init-from", ""))
    # so that the same command continues the same run even where a preset has changed since
    config = config_from(saved, str(folder.config_json))
    # the run may have moved to another machine: planning chooses the engine, and keeps the size as
    # long as it fits
    again = replace(config, time_limit="", resume="auto", override_config=False)
    return replace(again, physics="auto", num_envs="auto", run_dir=start.run_dir)


def _hyphens(word: str) -> str:
    """`--num_envs=8` as `--num-envs=8`; values stay as they are."""
    if not word.startswith("--"):
        return word
    name, mark, value = word.partition("=")
    return name.replace("_", "-") + mark + value


def taken(argv: list[str], name: str) -> tuple[str | None, list[str]]:
    """The value of `--name VALUE` or `--name=VALUE` (the last one wins), and what is left."""
    value, rest, i = None, [], 0
    while i < len(argv):
        match = _SHORT.match(argv[i])
        if match is None or match["name"] != name:
            rest.append(argv[i])
        elif match["value"] is not None:
            value = match["value"]
        elif i + 1 < len(argv) and not argv[i + 1].startswith("--"):
            value, i = argv[i + 1], i + 1
        else:
            raise UserError(f"--{name} needs a value")
        i += 1
    return value, rest


def _tyro(argv: list[str], base: Config, prog: str, about: str) -> Config:
    import tyro

    known = _flag_names(base)
    for word in argv:
        name = word.split("=")[0]
        if name.startswith("--") and name not in known:
            key = re.sub(r"(^|\.)no_", r"\1", name[2:].replace("-", "_"))
            if hint := migrations.successor(key, as_flag=True):
                raise UserError(f'unknown flag "{name}"{hint}')
            raise unknown_flag(name, known)
    asked: dict[str, Any] = {
        "args": argv,
        "default": base,
        "prog": prog,
        "registry": rules(),
    }
    if {"--help", "-h"} & set(argv):
        tyro.cli(type(base), description=f"{about} {_CONFIG}", **asked)
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            return tyro.cli(type(base), **asked)
    except SystemExit as stop:
        if stop.code in (0, None):
            sys.stdout.write(output.getvalue())
            raise
        raise _error(output.getvalue(), argv, base) from None


_CONFIG = "Also: --config FILE, a saved config.json or one written by hand (JSON or YAML)."


def _flag_names(base: Config) -> set[str]:
    names = {"--help", "--config"}
    for key, setting in settings_of(type(base)).items():
        names.add(flag(key))
        if setting.hint is bool:
            group, _, name = key.rpartition(".")
            names.add(flag(f"{group}.no_{name}" if group else f"no_{name}"))
    return names


def _error(boxed: str, argv: list[str], base: Config) -> UserError:
    """tyro's framed message as one line: what was got, what is allowed."""
    wrong = re.search(r"(--(?!help)[\w.-]+)", re.sub(r"-{5,}", " ", boxed))
    key = wrong[1].rstrip(".")[2:].replace("-", "_") if wrong else ""
    setting = settings_of(type(base)).get(key)
    if setting is None:
        stray = [w for i, w in enumerate(argv) if not w.startswith("--") and _is_stray(argv, i)]
        got = f'unexpected argument "{stray[0]}"' if stray else f"cannot read {' '.join(argv)}"
        return UserError(f"{got}; settings are given as --name value, --help lists them")
    name = flag(key)
    place = next((i for i, w in enumerate(argv) if w.split("=")[0] == name), len(argv))
    given = argv[place].partition("=")[2] if place < len(argv) else ""
    after = [w for w in argv[place + 1 : place + 3] if not w.startswith("--")]
    got = given or " ".join(after)
    if setting.choices and got:
        return unknown(key.replace(".", " "), got.split()[0], setting.choices)
    kind = _KINDS.get(
        setting.hint, "numbers" if isinstance(value_at(base, key), tuple) else "a word"
    )
    return UserError(f'{name} takes {kind}, got "{got}"')


_KINDS: dict[Any, str] = {
    bool: "nothing after it",
    int: "a whole number",
    float: "a number",
    tuple[float, float]: "two numbers, low first",
}


def _is_stray(argv: list[str], place: int) -> bool:
    return place == 0 or not argv[place - 1].startswith("--") or "=" in argv[place - 1]
