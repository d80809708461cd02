"""A folder of runs: each one's progress and whether it can continue, whatever is wrong with it."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys

import psutil
import pytest

from jaxrl_hw.checkpointing.lock import STALE_S
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.run_summary import summarize
from jaxrl_hw.runs import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def listed(capsys, *words):
    assert main(["list", *words, "--json"]) == 0
    return {found["name"]: found for found in json.loads(capsys.readouterr().out)["runs"]}


def write_lock(run, pid, host, born=None, began=True):
    """The lock file of a process that trains in the folder."""
    born = psutil.Process(pid).create_time() if born is None else born
    session = {"started": "2026-01-03T00:00:00", "first_iteration": 21, "num_envs": 32}
    record = {"pid": pid, "host": host, "process_started": born, **(session if began else {})}
    path = run / "session.open"
    path.write_text(json.dumps(record))
    return path


def one_line(capsys):
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_a_run_is_a_row_with_its_figures(run, capsys):
    for words in ([], ["list"], ["runs"], ["list", "runs"]):
        assert main(words) == 0
        (head, row) = capsys.readouterr().out.splitlines()
        assert head.startswith("run ")
        for text in ("walker", "cartpole", "20 of 40", "2026-01-02 03:04", "time limit", "3.500"):
            assert text in row
    found = listed(capsys)["walker"]
    files = [path for path in run.rglob("*") if path.is_file()]
    assert found["bytes"] == sum(path.stat().st_size for path in files)
    assert (found["done"], found["goal"], found["best_return"]) == (20, 40, 3.5)
    assert found["resumable"] is True
    assert found["last_session"]["ended"] == "time limit"


def test_the_latest_session_comes_first(new_run, tmp_path, capsys):
    for name, year in (("a", "2024"), ("b", "2026"), ("c", "2025")):
        path = new_run(tmp_path / "runs" / name) / "sessions.jsonl"
        path.write_text(path.read_text().replace("2026", year))
    assert list(listed(capsys)) == ["b", "c", "a"]


@pytest.mark.slow
def test_a_narrow_terminal_gets_lines_that_fit(new_run, tmp_path):
    new_run(tmp_path / "runs/g1_12dof-joystick-ppo-0")
    said = in_terminal(70, "list")
    assert all(len(line) <= 70 for line in said.splitlines())
    for text in ("g1_12dof-joystick-ppo-0", "20 of 40", "3.500"):
        assert text in said
    said = in_terminal(70, "show", "runs/g1_12dof-joystick-ppo-0")
    assert "1 to 20" in said
    assert "=====" not in said
    assert "=====....." in in_terminal(92, "show", "runs/g1_12dof-joystick-ppo-0")


def in_terminal(width, *words):
    """What a process prints that believes to be in a terminal of so many columns."""
    code = (
        "import sys; sys.stdout.isatty = lambda: True; from jaxrl_hw.runs import main; "
        f"sys.exit(main({words}))"
    )
    env = {**os.environ, "COLUMNS": str(width), "TERM": "dumb"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout


def test_a_run_at_its_goal_says_how_it_goes_on(new_run, tmp_path, capsys):
    new_run(tmp_path / "runs/done", goal=20)
    found = listed(capsys)["done"]
    assert (found["status"], found["resumable"]) == ("done", False)
    assert main(["show", "runs/done"]) == 0
    assert "--run-dir runs/done --iterations 40" in capsys.readouterr().out


def test_a_run_in_training_names_the_process(run, capsys):
    write_lock(run, os.getppid(), platform.node())
    found = listed(capsys)["walker"]
    assert (found["status"], found["resumable"]) == ("training", False)
    assert f"process {os.getppid()}" in found["why"]
    assert found["last_session"]["ended"] == "training"
    assert found["last_session"]["num_envs"] == 32
    # it has begun and compiles
    write_lock(run, os.getppid(), platform.node(), began=False)
    found = listed(capsys)["walker"]
    assert (found["status"], found["last_session"]["ended"]) == ("training", "time limit")


def test_a_killed_session_does_not_hold_the_run(run, capsys):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        write_lock(run, process.pid, platform.node())
        assert listed(capsys)["walker"]["status"] == "training"
        process.communicate(b"\n")
    found = listed(capsys)["walker"]
    assert (found["status"], found["last_session"]["ended"]) == ("ready", "killed")
    # another process has its number
    write_lock(run, os.getppid(), platform.node(), born=1.0)
    assert listed(capsys)["walker"]["status"] == "ready"


def test_a_session_of_another_machine_counts_while_its_lock_file_is_fresh(run, capsys):
    path = write_lock(run, os.getpid(), "cluster-9")
    found = listed(capsys)["walker"]
    assert found["status"] == "training"
    assert f"{os.getpid()} on cluster-9" in found["why"]
    long_ago = path.stat().st_mtime - 2 * STALE_S
    os.utime(path, (long_ago, long_ago))
    assert listed(capsys)["walker"]["status"] == "ready"


def test_a_run_without_a_checkpoint_is_empty(new_run, tmp_path, capsys):
    new_run(tmp_path / "runs/young", returns={}, rows=3)
    found = listed(capsys)["young"]
    assert (found["status"], found["done"]) == ("empty", 0)
    assert main(["show", "runs/young"]) == 0
    assert "jaxrl_hw.train" not in capsys.readouterr().out


DAMAGES = {
    "config cut": lambda run: (run / "config.json").write_text('{"format": 1, "conf'),
    "config gone": lambda run: (run / "config.json").unlink(),
    "config binary": lambda run: (run / "config.json").write_bytes(b"\xff\xfe\x00"),
    "config deep": lambda run: (run / "config.json").write_text("[" * 100_000),
    "config of no robot": lambda run: (run / "config.json").write_text('{"config": {}}'),
    "newer format": lambda run: (run / "config.json").write_text('{"format": 9, "config": {}}'),
    "sessions binary": lambda run: (run / "sessions.jsonl").write_bytes(b"\xff\xfe\n"),
    "config a folder": lambda run: (
        (run / "config.json").unlink(),
        (run / "config.json").mkdir(),
    ),
    "no meta": lambda run: [
        shutil.rmtree(run / f"checkpoints/{number}/meta") for number in (10, 20)
    ],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_run_is_shown_as_such_and_the_others_as_ever(
    damage, run, new_run, tmp_path, capsys
):
    damage(run)
    new_run(tmp_path / "runs/sound")
    found = listed(capsys)
    assert found["sound"]["status"] == "ready"
    assert found["walker"]["status"] == "damaged"
    assert found["walker"]["why"]
    assert "\n" not in found["walker"]["why"]
    assert main([]) == 0
    assert "damaged" in capsys.readouterr().out
    assert main(["show", "runs/walker"]) == 0
    assert "damaged" in capsys.readouterr().out


def test_odd_values_in_small_files_do_not_break_the_list(run, capsys):
    lines = ['{"started": 5, "num_envs": "many", "last_iteration": [], "seconds": "x"}', "{}", "3"]
    (run / "sessions.jsonl").write_text("\n".join(lines) + "\n{half")
    (run / "metrics.jsonl").write_text('[1]\n{"iteration": null}\nnothing\n')
    (run / "session.open").write_text("{")
    for name in ("007", "30.old", "31.orbax-checkpoint-tmp-1", "x"):
        (run / "checkpoints" / name).mkdir()
    meta = {"iteration": 20, "episode_return": float("nan"), "leaves": {}}
    (run / "checkpoints/20/meta/metadata").write_text(json.dumps(meta))
    found = listed(capsys)["walker"]
    assert (found["status"], found["done"], found["best_return"]) == ("ready", 20, 3.5)
    assert main(["show", "runs/walker", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["sessions"]) == 2
    assert main([]) == 0


def test_a_damaged_newest_checkpoint_leaves_the_one_before(run, capsys):
    (run / "checkpoints/20/meta/metadata").write_text("")
    found = listed(capsys)["walker"]
    assert (found["status"], found["done"]) == ("ready", 10)
    assert [number in found["why"] for number in ("20", "10")] == [True, True]


def test_settings_of_another_version_are_no_damage(run, capsys):
    path = run / "config.json"
    record = json.loads(path.read_text())
    record["config"]["ppo"]["warp"] = 9
    path.write_text(json.dumps(record))
    found = listed(capsys)["walker"]
    assert (found["status"], found["robot"], found["done"]) == ("refused", "cartpole", 20)
    assert '"ppo.warp"' in found["why"]


def test_what_is_no_run_is_left_out(run, tmp_path, capsys):
    (tmp_path / "runs/notes").mkdir()
    (tmp_path / "runs/notes.txt").write_text("mine")
    shutil.copytree(run, tmp_path / "runs/.walker.1234.unpacking")
    (tmp_path / "runs/gone").symlink_to(tmp_path / "nowhere")
    (tmp_path / "runs/linked").symlink_to(run)
    assert sorted(listed(capsys)) == ["linked", "walker"]
    (tmp_path / "none").mkdir()
    assert main(["none"]) == 0
    assert "none" in capsys.readouterr().out
    assert listed(capsys, "none") == {}


def test_a_malformed_row_of_metrics_is_found_by_show(run, capsys):
    log = run / "metrics.jsonl"
    log.write_text(log.read_text().replace('{"iteration": 7,', "{"))
    assert listed(capsys)["walker"]["status"] == "ready"  # a list does not read every row
    assert summarize(run, thorough=True).status == "ready"
    log.write_text(log.read_text().replace('{"iteration": 8,', '"iteration": 8,'))
    assert main(["show", "runs/walker"]) == 0
    assert "line 8" in capsys.readouterr().out


def test_the_history_shows_what_a_killed_session_has_left(run, capsys):
    record = RunDir(run)
    record.append_session({"started": "2026-01-03T00:00:00", "first_iteration": 21, "ended": "k"})
    last = {"started": "2026-01-04T00:00:00", "first_iteration": 31, "last_iteration": 40}
    record.append_session({**last, "num_envs": 4096, "seconds": 3661.0, "ended": "goal"})
    assert main(["show", "runs/walker"]) == 0
    said = capsys.readouterr().out
    assert "21 to 30" in said
    rows = [line for line in said.splitlines() if line.rstrip().endswith((".", "="))][-3:]
    assert [row.split()[-1] for row in rows] == [
        "==========..........",
        "..........=====.....",
        "...............=====",
    ]
    assert "4,096" in rows[-1]
    assert "1h 01m" in rows[-1]
    marks = {line.split()[0]: line.split()[-1] for line in said.splitlines()[-5:] if line.strip()}
    assert (marks["10"], marks["20"]) == ("best", "newest")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["shwo", "runs/walker"], '"show"'),
        (["walk"], '"walk"'),
        (["list", "nowhere"], "nowhere"),
        (["some/where"], "some/where"),
        (["list", "runs/walker"], "runs/walker"),
        (["list", "runs/walker/config.json"], "config.json"),
        (["list", "runs", "runs"], '"runs"'),
        (["--jason"], '"--json"'),
        (["show"], "DIR"),
        (["show", "runs/nothing"], "runs/nothing"),
        (["show", "runs"], "runs"),
        (["show", "runs/walker/config.json"], "config.json"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(words, said, run, capsys):
    assert main(words) == 2
    assert said in one_line(capsys)


def test_without_a_folder_of_runs_the_first_step_is_shown(capsys):
    assert main([]) == 2
    assert "python -m jaxrl_hw.train" in one_line(capsys)


def test_a_listing_loads_nothing_heavy(run, tmp_path):
    code = (
        "import sys; from jaxrl_hw.runs import main; code = main([]); main(['pack', 'runs/walker'])"
        "; main(['unpack', 'walker.zip', '--out', 'again']); main(['show', 'again']); "
        "heavy = {'jax', 'jaxlib', 'numpy', 'mujoco', 'orbax', 'flax', 'tyro'}; "
        "print(sorted(heavy & set(sys.modules))); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


OWN_ROBOT = """
from dataclasses import replace
from jaxrl_hw.envs.robots import get_robot
ROBOT = replace(get_robot("cartpole"), name="own_pole")
"""


@pytest.mark.slow
def test_code_that_a_run_names_is_imported_only_where_the_command_line_names_it_too(
    run, tmp_path, capsys
):
    (tmp_path / "own_robot.py").write_text(OWN_ROBOT)
    config = run / "config.json"
    record = json.loads(config.read_text())
    record["config"]["robot"] = "own_robot"
    config.write_text(json.dumps(record))
    assert main(["pack", "runs/walker"]) == 0
    said = shown("show", "runs/walker")
    assert "--robot own_robot" in said
    assert "jaxrl_hw.train" not in said
    for words in (("show", "runs/walker"), ("unpack", "walker.zip", "--out", "again")):
        said = shown(*words, "--robot", "own_robot")
        assert "jaxrl_hw.train --run-dir" in said
        assert "--robot own_robot" in said
    assert "own_robot imported: False" in shown("list")
    assert "own_robot imported: True" in shown("list", "--robot", "own_robot")
    assert main(["list", "--robot", "no.such.robot"]) == 2
    assert "no.such.robot" in one_line(capsys)


def shown(*words):
    """What a process of its own prints, and whether it has imported the robot's module."""
    code = (
        f"import sys; from jaxrl_hw.runs import main; code = main({words}); "
        "print('own_robot imported:', 'own_robot' in sys.modules); sys.exit(code)"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
