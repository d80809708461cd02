"""The --help of `train` and `plan`: every setting with its unit, bounds and default, in groups."""

from __future__ import annotations

import dataclasses
import inspect
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from docstring_parser import parse_from_object

from jaxrl_hw.cli.help_text import fitted, terminal_width
from jaxrl_hw.config.curriculum import Stage, format_stage
from jaxrl_hw.config.fields import Setting, flag, value_at

NO_STAGES = "none"
"""The word of `--curriculum` that empties it."""
GROUPS = {
    "what to train": (
        *("robot", "env", "task", "algo", "preset", "init_from", "curriculum", "seed", "seeds"),
    ),
    "goal": ("timesteps", "iterations", "time_limit", "early_stop", "eval_every"),
    "run and checkpoints": (
        *("run_dir", "resume", "override_config", "save_every", "keep", "keep_every"),
        *("save_replay", "mirror"),
    ),
    "environments and physics": (
        *("num_envs", "max_envs", "physics", "timestep", "gains", "discrete_actions"),
    ),
    "hardware": (
        *("devices", "threads", "mem_fraction", "memory_limit", "precision", "deterministic"),
    ),
    "what to do about trouble": ("on_oom", "on_nan", "nan_patience"),
    "output": ("quiet", "log_format", "tensorboard", "wandb", "profile"),
}
"""The settings that are in no group of their own, such as ppo; others stand under "others"."""


class Command(NamedTuple):
    """What the help says of a command beside the settings."""

    prog: str
    about: str
    examples: tuple[str, ...]
    flags: Mapping[str, str]
    """Its flags that are no settings, and what they mean."""


def settings_help(command: Command, base: Any) -> str:
    """The help; the defaults are the values of the config `base`."""
    common = {"-h, --help": "Print this and stop.", **command.flags}
    common["--config FILE"] = "A saved config.json, or one written by hand (JSON or YAML)."
    groups = {"this command": list(common.items())}
    place = {name: title for title, names in GROUPS.items() for name in names}
    groups |= {title: [] for title in GROUPS}
    for key, kind, field, hint in _fields(type(base)):
        group, _, name = key.rpartition(".")
        title = group or place.get(name, "others")
        groups.setdefault(title, []).append(_entry(key, kind, field, hint, value_at(base, key)))
    examples = "\n".join(f"    {line}" for line in command.examples)
    parts = [f"usage: {command.prog} [--NAME VALUE ...]", fitted(command.about), examples]
    parts += [f"{title}:\n{_block(rows)}" for title, rows in groups.items() if rows]
    return "\n\n".join(parts)


def _block(rows: Iterable[tuple[str, str]]) -> str:
    fill = textwrap.TextWrapper(terminal_width(), initial_indent=" " * 8, subsequent_indent=" " * 8)
    fill.break_on_hyphens = False
    return "\n".join(f"  {shown}\n{fill.fill(text)}" for shown, text in rows)


def _fields(
    kind: type, prefix: str = ""
) -> Iterator[tuple[str, type, dataclasses.Field[Any], Any]]:
    """(dotted key, class, field, type) of every setting, groups after what is in none."""
    hints, groups = typing.get_type_hints(kind), []
    for field in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[field.name]):
            groups.append(field.name)
        else:
            yield prefix + field.name, kind, field, hints[field.name]
    for name in groups:
        yield from _fields(hints[name], f"{prefix}{name}.")


def _entry(
    key: str, kind: type, field: dataclasses.Field[Any], hint: Any, default: Any
) -> tuple[str, str]:
    """A flag as it is typed; its docstring, unit, bounds and default."""
    owner = next(base for base in kind.__mro__ if field.name in inspect.get_annotations(base))
    text, bounds = _docs(owner).get(field.name, ""), Setting(key, hint, field.metadata).bounds
    signs = {"at_least": ">=", "above": ">", "at_most": "<="}
    notes = [f"{signs[name]} {limit:.10g}" for name, limit in bounds.items()]
    notes = [field.metadata["unit"], *notes] if field.metadata.get("unit") else notes
    text += f" [{', '.join(notes)}]" if notes else ""
    if hint is bool:
        off = flag(".".join([*key.split(".")[:-1], f"no_{field.name}"]))
        return f"{flag(key)}, {off}", f"{text} (default: {'on' if default else 'off'})"
    return f"{flag(key)} {_form(hint)}", f"{text} (default: {_shown(default)})"


@cache
def _docs(owner: type) -> dict[str, str]:
    if owner.__name__ == "Config" and owner.__module__.endswith("presets"):
        return {}  # made at run time: it has no source
    docs = parse_from_object(owner).params
    return {doc.arg_name: " ".join((doc.description or "").split()) for doc in docs}


def _form(hint: Any) -> str:
    """The kind of a setting's values."""
    kinds = typing.get_args(hint) or (hint,)
    if kinds[0] is Stage:
        return '"STEPS: SETTING=VALUE ..." ...'
    if typing.get_origin(hint) is typing.Literal:
        return f"{{{','.join(map(str, kinds))}}}"
    if kinds[-1] is ...:
        return f"{kinds[0].__name__.upper()} ..."
    between = " " if typing.get_origin(hint) is tuple else "|"
    return between.join(kind.__name__.upper() for kind in kinds)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        words = [f"'{format_stage(x)}'" if isinstance(x, Stage) else str(x) for x in value]
        return " ".join(words) or NO_STAGES
    return str(value) if value != "" else "empty"
