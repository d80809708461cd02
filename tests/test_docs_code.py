"""The code on the pages runs: Python blocks at a tiny size, commands through their real parsers."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
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
INDENTED = re.compile(r"(?<=\n\n)((?:    \S.*\n)+)")
ELSEWHERE = {
    "pip install": "a network",
    "git clone": "a network",
    "make setup": "a network",
    "benchmarks/gpu_acceptance.py": "an NVIDIA GPU",
    "deploy/deploy_mujoco/deploy_mujoco.py": "unitree_rl_gym",
    "deploy_mujoco.py g1.yaml": "a screen",
    "from jaxrl_hw.cli.notebook import": "a notebook",
    'train("--robot"': "a notebook",
    'run("play"': "a notebook",
    'film("walk.html")': "a notebook",
}
"""What is not run here, and what it needs."""
COMMAND = re.compile(r"python -m jaxrl_hw\.(\w+)|jaxrl-hw (\w+)")
SLURM = {"JOB_ID": "7", "PROCID": "1", "NTASKS": "2", "STEP_NODELIST": "node[1-2]"}
SLURM = {f"SLURM_{name}": value for name, value in SLURM.items()}
"""What srun tells a process."""
SWITCHES = {"train": ["--smoke"], "plan": ["--json", "--probe", "--compile"]}


class Line(NamedTuple):
    """A command on a page."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """Of a command of this library: its name and its arguments."""
        words = shlex.split(self.text)
        return words[1:] if words[0] == "jaxrl-hw" else [words[2].partition(".")[2], *words[3:]]


def lines_of(page: Path) -> list[Line]:
    blocks = INDENTED.findall(FENCE.sub("", page.read_text()))
    blocks += [text for kind, text in FENCE.findall(page.read_text()) if kind in ("bash", "sh")]
    texts = (re.sub(r"\s+#.*", "", x) for block in blocks for x in re.split(r"\n| && ", block))
    return [Line(page.name, text.strip().removeprefix("srun ")) for text in texts if text.strip()]


LINES = [line for page in PAGES for line in lines_of(page)]
OURS = list({line.text: line for line in LINES if COMMAND.match(line.text)}.values())
assert len(OURS) > 30


def test_every_command_on_a_page_is_of_a_kind_that_is_checked():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for line in LINES:
        make = re.match(r"make (\w+)", line.text)
        script = re.match(r"python ((?:benchmarks|scripts)/\w+\.py)", line.text)
        known = bool(COMMAND.match(line.text) or line.text.startswith("cd "))
        known |= make is not None and make[1] in targets
        known |= script is not None and (ROOT / script[1]).is_file()
        assert known or any(text in line.text for text in ELSEWHERE), line


@pytest.mark.parametrize("line", OURS, ids=lambda line: f"{line.page}: {line.text[:60]}")
def test_a_command_on_a_page_is_one_that_its_parser_takes(line, tmp_path, monkeypatch, capsys):
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


@pytest.mark.parametrize(
    "text",
    [
        "python -m jaxrl_hw.runs",
        "python -m jaxrl_hw.plan --robot g1 --gpu t4",
        "python -m jaxrl_hw.experiment examples/mini.yaml",
    ],
)
def test_a_cheap_command_on_a_page_runs(text, tmp_path, monkeypatch):
    (line,) = [line for line in OURS if line.text == text]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    trains = line.words[0] == "experiment"
    assert main([*line.words, *(["--dry-run"] if trains else [])]) == 0


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
