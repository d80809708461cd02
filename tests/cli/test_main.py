"""The script `jaxrl-hw` runs every command by its name."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from pathlib import Path

import pytest

import jaxrl_hw
from jaxrl_hw import Config
from jaxrl_hw.cli.main import COMMANDS, main
from jaxrl_hw.cli.settings_help import GROUPS
from jaxrl_hw.config.fields import flag, settings_of

ROOT = Path(jaxrl_hw.__file__).parents[1]


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(COMMANDS)


WORDS = [[name] for name in COMMANDS] + [["runs", x] for x in ("list", "show", "pack", "unpack")]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_command_s_help_fits_the_terminal_and_shows_an_example(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = _help(words, monkeypatch, capsys)
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(f"    python -m jaxrl_hw.{words[0]}") for line in lines)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_command_s_help_has_its_flags_in_groups_with_titles(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    groups: dict[str, list[str]] = {}
    title = ""
    for line in _help(words, monkeypatch, capsys):
        if line and not line.startswith(" ") and line.endswith(":"):
            title = line[:-1]
        elif re.match(r"  -", line):
            groups.setdefault(title, []).append(line.split()[0])
    assert len(groups) > 1
    assert "" not in groups
    assert groups.get("options", ["-h,"]) == ["-h,"]


def _help(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """The lines of a command's --help, 80 characters wide."""
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out.splitlines()


OTHERS = ["--smoke", "--config", "--coordinator", "--num-processes", "--process-id"]
OTHERS += ["--connect-timeout"]
"""Flags of train that are no settings."""


def test_the_help_of_train_has_every_setting_in_a_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with contextlib.suppress(SystemExit):
        main(["train", "--help"])
    shown = capsys.readouterr().out
    flags = [line.split()[0].rstrip(",") for line in shown.splitlines() if line.startswith("  --")]
    known = settings_of(Config)
    assert sorted(flags) == sorted([*map(flag, known), *OTHERS])
    titles = [line for line in shown.splitlines() if line.endswith(":") and line[0] != " "]
    groups = {key.rpartition(".")[0] for key in known} - {""}
    assert len(titles) == 1 + len(GROUPS) + len(groups)


def test_a_name_runs_its_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["runs", "list", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []
    assert main(["doctor", "--jsn"]) == 2
    assert "--jsn" in capsys.readouterr().err


def test_an_unknown_name_is_one_line_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian", "--robot", "g1"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert '"trian"' in err
    assert '"train"' in err


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == jaxrl_hw.__version__


def test_every_command_module_has_a_name_and_the_script_is_installed() -> None:
    package = Path(jaxrl_hw.__file__).parent
    others = {"__init__", "types", "errors"}
    assert {path.stem for path in package.glob("*.py")} - others == set(COMMANDS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"jaxrl-hw": "jaxrl_hw.cli.main:main"}
    assert (package / "py.typed").exists()
