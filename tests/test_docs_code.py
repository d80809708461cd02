"""The code on the pages runs at a tiny size, or the page says what it needs."""

from __future__ import annotations

import contextlib
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import yaml

import jaxrl_hw
from jaxrl_hw import NetConfig, preset_config
from jaxrl_hw.cli.flags import parse, taken
from jaxrl_hw.cli.main import COMMANDS, main
from jaxrl_hw.cli.process_flags import taken_processes

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:(?<=\n\n)|(?<=-->\n))((?:    \S.*\n|\n(?=    \S))+)")
MARK = re.compile(r"<!-- (?:(\w+) )?needs: (.+) -->\n\Z")
"""Before a block: what it, or its lines that begin with a word, need to run."""
NEEDS = {
    *("a network", "a GPU", "XLA's GPU compiler", "a screen", "a notebook", "unitree_rl_gym"),
    *("two machines", "SLURM", "an idle machine", "minutes", "hours", "days"),
}
COMMAND = re.compile(r"python -m jaxrl_hw\.(\w+)|jaxrl-hw (\w+)")
SLURM = {"JOB_ID": "7", "PROCID": "1", "NTASKS": "2", "STEP_NODELIST": "node[1-2]"}
SLURM = {f"SLURM_{name}": value for name, value in SLURM.items()}
"""What srun tells a process."""
SWITCHES = {"train": ["--smoke"], "plan": ["--json", "--probe", "--compile"]}
HOPPER = "examples/test_examples.py::"
TESTED = {
    "train --robot examples.own_robot": f"{HOPPER}test_its_settings_are_the_runs",
    "play --robot examples.own_robot": f"{HOPPER}test_it_is_filmed",
    "evaluate --robot examples.own_robot": f"{HOPPER}test_it_is_evaluated_and_exported",
    "--algo examples.": f"{HOPPER}test_an_algorithm_of_your_own_trains_resumes_and_exports",
    "--env brax:ant": "envs/tasks/test_outside.py::test_a_run_of_brax_is_continued_to_the_bit",
    "--init-from zoo:": "cli/test_init_from.py::test_a_policy_of_the_zoo_is_named",
    "--suite robust": "evaluation/test_evaluate.py"
    "::test_the_robust_suite_prints_every_case_and_writes_it",
    "plan --robot g1 --probe": "cli/test_plan.py"
    "::test_a_probe_measures_the_speed_of_each_size_and_train_finds_it",
    "jaxrl_hw.doctor": "cli/doctor/test_doctor.py"
    "::test_a_sound_installation_passes_and_is_left_as_it_was",
    "jaxrl_hw.experiment": "cli/experiment/test_experiment.py"
    "::test_it_stops_saved_continues_and_keeps_a_failure_apart",
    "--no-viewer": "policies/test_deployment.py::test_the_script_walks_at_the_commanded_velocity",
    "benchmarks/compare_algorithms.py": "benchmarks/test_compare_algorithms.py"
    "::test_a_training_is_watched_until_its_target_and_to_its_end",
    "iterations_vs_memory.py --robot": "benchmarks/test_iterations_vs_memory.py"
    "::test_rows_are_those_of_real_runs_the_smallest_first",
    "iterations_vs_memory.py --budgets": "benchmarks/test_iterations_vs_memory.py"
    "::test_limits_that_are_too_low_are_refused_and_count_as_kept",
    "benchmarks/scaling.py": "benchmarks/test_scaling.py::test_both_tables_are_measured_and_drawn",
}
"""Commands that take long even when small, and the tests that run them."""
SMALL = "--timesteps 0 --iterations 3 --net.policy 16 --net.value 16 --no-tensorboard"
PPO = "--ppo.unroll 8 --ppo.epochs 1 --ppo.minibatch-size 128 --ppo.symmetry none"
TINY = {
    "train": SMALL,
    "plan": SMALL,
    "play": "--seconds 0.2 --width 64 --height 64",
    "evaluate": "--seconds 3",
    "report": "--seconds 0.2 --no-film",
    "runs pack": "--out other.zip",
    "runs unpack": "--out other",
}
"""Flags that make a command small; the last one given counts."""
TRAINED = {
    "cartpole_run": "cartpole-cartpole-ppo-0 a-0 a-1 a-2 b-0 b-1 b-2",
    "walking_run": "g1-joystick-ppo-0 g1_12dof-joystick-ppo-0",
}
"""The runs that pages speak of, and the tiny run that takes their place."""


class Line(NamedTuple):
    """A command on a page."""

    page: str
    text: str
    needs: str

    @property
    def words(self) -> list[str]:
        """Of a command of this library: its name and its arguments."""
        words = shlex.split(self.text)
        return words[1:] if words[0] == "jaxrl-hw" else [words[2].partition(".")[2], *words[3:]]

    @property
    def is_run_here(self) -> bool:
        return not self.needs and not any(text in self.text for text in TESTED)


def lines_of(page: Path) -> list[Line]:
    text = page.read_text()
    found = [
        (text[: match.start()], match[2])
        for match in FENCE.finditer(text)
        if match[1] in ("bash", "sh")
    ]
    rest = FENCE.sub("", text)
    found += [(rest[: match.start()], match[1]) for match in INDENTED.finditer(rest)]
    lines = []
    for before, block in found:
        mark = MARK.search(before)
        for command in re.split(r"\n| && ", block):
            command = re.sub(r"\s+#.*", "", command).strip().removeprefix("srun ")
            needs = mark[2] if mark and command.startswith(mark[1] or "") else ""
            lines += [Line(page.name, command, needs)] if command else []
    return lines


LINES = [line for page in PAGES for line in lines_of(page)]
OURS = list({line.text: line for line in LINES if COMMAND.match(line.text)}.values())
SCRIPT = re.compile(r"python ((?:benchmarks|scripts)/\w+\.py)")
SCRIPTS = list({line.text: line for line in LINES if SCRIPT.match(line.text)}.values())
assert len(OURS) > 30


def name_of(line: Line) -> str:
    return f"{line.page}: {line.text[:60]}"


def test_every_command_on_a_page_runs_here_or_says_what_it_needs():
    for line in LINES:
        assert set(filter(None, line.needs.split(", "))) <= NEEDS, line
        assert not line.is_run_here or COMMAND.match(line.text), line


def test_what_another_test_runs_is_on_a_page_and_that_test_exists():
    for text, test in TESTED.items():
        assert any(text in line.text for line in LINES), text
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(), test


@pytest.mark.parametrize("line", [x for x in OURS if not x.is_run_here], ids=name_of)
def test_a_command_that_does_not_run_here_is_one_that_its_parser_takes(
    line, tmp_path, monkeypatch, capsys
):
    name, *words = line.words
    assert name in COMMANDS
    monkeypatch.chdir(tmp_path)
    if name not in ("train", "plan"):
        with pytest.raises(SystemExit) as stop:  # flags are read up to --help
            main([name, *words, "--help"])
        assert stop.value.code == 0, capsys.readouterr().err
        return
    words = [word for word in words if word not in SWITCHES[name]]
    words = taken_processes(words, SLURM)[1] if name == "train" else words
    words = taken(words, "gpu")[1] if name == "plan" else words
    if "examples." not in line.text:
        parse(words)
        return
    code = "import sys; from jaxrl_hw.cli.flags import parse; parse(sys.argv[1:])"
    # a process of its own, which alone registers the example
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, *words], check=True, cwd=tmp_path, env=env)


@pytest.mark.slow
@pytest.mark.parametrize("line", SCRIPTS, ids=name_of)
def test_a_script_on_a_page_takes_its_flags(line, monkeypatch, capsys):
    words = shlex.split(line.text)[1:]
    monkeypatch.setattr(sys, "argv", [*words, "--help"])
    monkeypatch.setattr(sys, "path", [str(ROOT / words[0]).rpartition("/")[0], *sys.path])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")
    assert stop.value.code in (0, None), capsys.readouterr().err


@pytest.fixture(scope="module")
def folder(tmp_path_factory, request):
    """A folder with the runs that pages speak of."""
    place = tmp_path_factory.mktemp("pages")
    for fixture, names in TRAINED.items():
        for name in names.split():
            shutil.copytree(request.getfixturevalue(fixture).folder, place / "runs" / name)
    run = place / "runs" / "cartpole-cartpole-ppo-0"
    assert main(["runs", "pack", str(run), "--out", str(place / f"{run.name}.zip")]) == 0
    return place


@pytest.mark.slow
@pytest.mark.parametrize("line", [x for x in OURS if x.is_run_here], ids=name_of)
def test_a_command_on_a_page_runs(line, folder, tmp_path, monkeypatch):
    """At a tiny size; cartpole takes the place of a robot whose legs do not matter."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("JAXRL_HW_CACHE", str(folder / "cache"))
    name, *words = line.words
    words += TINY.get(" ".join(line.words[:2]), TINY.get(name, "")).split()
    if name in ("train", "plan"):
        words += ["--run-dir", str(tmp_path / "run")]
        words += [] if "auto" in words else ["--num-envs", "16"]
        words += ["--sac.learning-starts", "16"] if "sac" in words else PPO.split()
        words += [] if "joystick." in line.text else ["--robot", "cartpole"]
    assert main([name, *words]) == 0


def blocks(page: str, kind: str) -> list[str]:
    return [text for k, text in FENCE.findall((ROOT / "docs" / page).read_text()) if k == kind]


def test_every_block_of_python_and_yaml_is_run_here():
    """Or by `tests/policies/test_deploy_loop.py`, which reads the YAML of deploy.md."""
    pages = {(p.name, kind) for p in PAGES for kind, _ in FENCE.findall(p.read_text()) if kind}
    ran = {("library.md", "python"), ("deploy.md", "python"), ("deploy.md", "yaml")}
    assert pages == ran | {("cli.md", "yaml"), ("reports.md", "yaml")}


@pytest.mark.slow
def test_the_library_s_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = preset_config("cartpole")
    ppo = replace(tiny.ppo, unroll=8, epochs=1, minibatch_size=128, symmetry="none")
    small = {"num_envs": 16, "iterations": 2, "timesteps": 0, "tensorboard": False, "ppo": ppo}
    tiny = replace(tiny, net=NetConfig(policy=(16,), value=(16,)), **small)
    replaced = {'jaxrl_hw.preset_config("cartpole")': "tiny", "g1-joystick": "cartpole-cartpole"}
    source = "\n".join(blocks("library.md", "python"))
    for text, other in replaced.items():
        assert text in source
        source = source.replace(text, other)
    sight = jaxrl_hw.make_env(tiny).spec.obs_size
    names = {"tiny": tiny, "robots": 3, "observation": np.zeros(sight, np.float32)}
    names["observations"] = np.zeros((3, sight), np.float32)
    exec(source, names)
    assert names["run"].iteration == 2
    assert names["action"].shape[0] == 3
    assert int(names["state"].iteration) == 1


@pytest.mark.slow
def test_the_deployment_s_blocks_run_beside_an_export(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (line,) = [x for x in OURS if x.text.startswith("python -m jaxrl_hw.export --policy")]
    assert main(line.words) == 0
    monkeypatch.chdir(tmp_path / "policy")
    monkeypatch.syspath_prepend(str(tmp_path / "policy"))
    names = {"obs": np.zeros(47, np.float32)}
    with contextlib.suppress(KeyError):
        del sys.modules["run_policy"]
    for source in blocks("deploy.md", "python"):
        exec(source, names)
    assert names["action"].shape == (12,)


@pytest.mark.parametrize("text", blocks("cli.md", "yaml"))
def test_the_settings_files_on_the_page_are_taken(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(text)
    config = parse(["--config", "mine.yaml"])
    wanted = yaml.safe_load(text)
    assert config.robot == wanted.get("robot", "g1")
    assert len(config.curriculum) == len(wanted.get("curriculum", config.curriculum))


@pytest.mark.parametrize("text", blocks("reports.md", "yaml"))
def test_the_manifest_on_the_page_is_taken(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(text)
    assert main(["experiment", "mine.yaml", "--dry-run"]) == 0
    assert len(re.findall(r"usual|short-sight", capsys.readouterr().out)) >= 4
