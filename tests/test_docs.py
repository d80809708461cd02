"""README and docs: links lead somewhere, commands and flags exist, code parses, files are there."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import jaxrl_hw
from jaxrl_hw.cli.main import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
README_LINES = 150

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][\w.-]*\w")
OF_OTHERS = {"--logdir", "--xla_gpu_deterministic_ops", "--num_envs", "--append"}
OF_OTHERS |= {"--nodes", "--ntasks-per-node", "--gpus-per-node", "--gpus-per-task", "--signal"}
"""Flags of other programs, and spellings, that the pages mention."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def flags_of(*words: str) -> frozenset[str]:
    """The flags that a command's --help names."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    return frozenset(FLAG.findall(shown.getvalue())) | {"--help"}


@cache
def known_flags(robot: str = "g1") -> frozenset[str]:
    """The flags of all commands and scripts."""
    commands = [("plan", "--robot", robot), ("play",), ("evaluate",), ("export",), ("doctor",)]
    commands += [("train",), ("report",), ("experiment",)]
    commands += [("runs", name) for name in ("list", "show", "pack", "unpack")]
    commands += [("plan", "--robot", "cartpole", "--algo", name) for name in ("a2c", "sac")]
    commands += [("plan", "--robot", "cartpole_discrete", "--algo", "dqn")]
    scripts = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "scripts").glob("*.py")]
    scripts += [ROOT / "jaxrl_hw" / "policies" / "deploy_mujoco.py"]
    flags = {flag for path in scripts for flag in script_flags(path)}
    return frozenset(flags.union(example_flags(), *(flags_of(*words) for words in commands)))


def example_flags() -> set[str]:
    """The flags of the example's robot; in a process of its own, which alone registers it."""
    words = [sys.executable, "-m", "jaxrl_hw.plan", "--robot", "examples.own_robot", "--help"]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(FLAG.findall(shown))


def script_flags(path: Path) -> list[str]:
    text = path.read_text()
    if "add_source_arguments(" in text:  # --policy and what else names a policy
        text += (ROOT / "jaxrl_hw/cli/arguments.py").read_text()
    return re.findall(r'add_argument\(\s*"(--[\w-]+)"', text)


def commands_in(page: Path) -> list[tuple[str, str, str]]:
    """(command, subcommand or "", the rest of the line) for every command line of a page."""
    pattern = (
        r"(?:python -m jaxrl_hw\.|\bjaxrl-hw )([a-z_]+)(?: (list|show|pack|unpack)\b)?([^\n`#]*)"
    )
    return re.findall(pattern, page.read_text())


@every_page
def test_relative_links_lead_to_files_and_headings(page):
    for link in LINK.findall(prose(page)):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = page if not path else (page.parent / path).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_the_readme_links_to_every_page():
    links = {(ROOT / link).resolve() for link in LINK.findall((ROOT / "README.md").read_text())}
    assert {page for page in PAGES if page.name != "README.md"} <= links


@every_page
def test_commands_and_their_flags_exist(page):
    for name, subcommand, rest in commands_in(page):
        assert name in COMMANDS, name
        robot = re.search(r"--robot (\w+)(?![\w.])", rest)
        words = [name, subcommand] if name == "runs" else [name]
        if name in ("train", "plan") and robot:
            words += ["--robot", robot[1]]
        unknown = set(FLAG.findall(rest)) - OF_OTHERS - flags_of(*filter(None, words))
        assert not unknown, (name, subcommand, unknown)


@pytest.mark.parametrize("command", ["train", "play", "evaluate", "export", "report", "experiment"])
def test_the_command_line_page_names_every_flag_without_a_group(command):
    named = set(FLAG.findall((ROOT / "docs" / "cli.md").read_text()))
    flags = {flag for flag in flags_of(command) if "." not in flag}
    unnamed = {f for f in flags if not {f, f"--no-{f[2:]}", f.replace("--no-", "--")} & named}
    assert not unnamed


@every_page
def test_every_flag_on_a_page_is_known(page):
    known = known_flags() | OF_OTHERS
    unknown = {flag for flag in FLAG.findall(page.read_text()) if flag not in known}
    assert not unknown


@every_page
def test_benchmarks_and_scripts_have_the_flags_that_pages_give_them(page):
    for path, rest in re.findall(r"((?:benchmarks|scripts)/\w+\.py)([^\n`|]*)", page.read_text()):
        assert set(FLAG.findall(rest)) <= set(script_flags(ROOT / path)), path


@every_page
def test_files_that_a_page_names_exist(page):
    folders = "jaxrl_hw|benchmarks|examples|notebooks|scripts|tests|docs"
    for name in re.findall(rf"`((?:{folders})/[\w./-]*\w)`", prose(page)):
        assert "NAME" in name or (ROOT / name).exists(), name


@every_page
def test_no_page_names_a_path_of_one_machine(page):
    found = re.findall(r"(?<![\w.])/(?:work|tmp|home|root|Users)\b[\w./-]*", page.read_text())
    assert not found


@every_page
def test_python_blocks_parse_and_use_public_names(page):
    for language, text in FENCE.findall(page.read_text()):
        if language != "python":
            continue
        ast.parse(text)
        for name in re.findall(r"\bjaxrl_hw\.([a-zA-Z]\w*)", text):
            assert name in jaxrl_hw.__all__, name


def test_the_zoos_tables_are_made_from_its_evaluations(capsys):
    spec = importlib.util.spec_from_file_location("zoo_tables", ROOT / "scripts" / "zoo_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert tables.main(["--check"]) == 0, capsys.readouterr().out
    typed = "<!-- zoo: short -->\n| 0.0 m/s |\n<!-- end -->"
    assert "`zoo:g1`" in tables.filled(typed)
    assert "| 0.0 m/s |" not in tables.filled(typed)


def test_the_estimate_of_gpus_is_made_from_the_compilers_figures():
    path = ROOT / "scripts" / "gpu_estimate.py"
    spec = importlib.util.spec_from_file_location("gpu_estimate", path)
    estimate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(estimate)
    assert estimate.main(["--check"]) == 0
    typed = "<!-- gpu: g1 -->\n| 12 ms |\n<!-- end -->"
    assert "| h200 | " in estimate.filled(typed)
    assert "| 12 ms |" not in estimate.filled(typed)


def test_the_architecture_page_names_every_entry_of_the_package():
    package = Path(jaxrl_hw.__file__).parent
    entries = [path for path in package.iterdir() if path.is_dir() and path.name[0].isalpha()]
    entries += [path for path in package.glob("*.py") if path.stem not in COMMANDS]
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert not [path.name for path in entries if f"`{path.name}`" not in text]
