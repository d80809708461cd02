"""The figures of an evaluation are right; the command prints them or fails in one line."""

from __future__ import annotations

import json

import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.evaluate import evaluate, main
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.evaluation.scoring import COMMANDS, commands_for, diagnostic_rows, walking_rows
from jaxrl_hw.evaluation.suites import robust_cases
from jaxrl_hw.evaluation.trajectory import Step, Trajectory


def even_motion(yaw: float, velocity, yaw_rate: float, command, seconds: float = 4.0) -> Trajectory:
    """A robot that heads for `yaw` (rad) and moves evenly; velocity is in the world frame."""
    steps = round(seconds / 0.02)
    qpos, qvel = np.zeros((steps, 1, 7)), np.zeros((steps, 1, 6))
    qpos[..., 3:7] = [np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]
    qvel[..., :3], qvel[..., 5] = velocity, yaw_rate
    fell = np.zeros((steps, 1), bool)
    fell[[10, 150], 0] = True
    commands = np.broadcast_to(np.array(command), (steps, 1, 3))
    qpos[:, 0, :2] = np.arange(1, steps + 1)[:, None] * 0.02 * np.array(velocity[:2])
    figures = {
        "power": np.linspace(0.0, 100.0, steps)[:, None],
        "foot_clearance": np.linspace(0.0, 0.06, steps)[:, None],
        "self_contacts": np.linspace(0.0, 0.2, steps)[:, None],
    }
    recorded = Step(qpos, qvel, commands, fell, np.zeros((steps, 1)), figures)
    return Trajectory("joystick", 0.02, 0.002, recorded)


def test_figures_worked_out_by_hand():
    # heads along world +y at 0.5 m/s: in its own frame that is straight ahead
    ahead = even_motion(np.pi / 2, (0.0, 0.5, 0.1), 0.3, (0.5, 0.0, 0.3))
    (row,) = walking_rows(ahead)
    assert row["velocity_error"] == pytest.approx(0.0, abs=1e-12)
    assert row["yaw_error"] == pytest.approx(0.0, abs=1e-12)
    assert row["falls"] == 2
    assert row["power"] == pytest.approx(np.linspace(0.0, 100.0, 200)[100:].mean())
    assert row["self_contacts"] == pytest.approx(100 * np.linspace(0.0, 0.2, 200)[100:].mean())
    # commanded to go left at 0.3 m/s and to turn the other way
    (row,) = walking_rows(even_motion(np.pi / 2, (0.0, 0.4, 0.0), 0.3, (0.0, 0.3, -0.2)))
    assert row["velocity_error"] == pytest.approx(0.5)
    assert row["yaw_error"] == pytest.approx(0.5)


def test_standing_is_measured_by_drift_and_lifted_feet():
    (row,) = walking_rows(even_motion(0.0, (0.03, 0.04, 0.0), 0.0, (0.0, 0.0, 0.0)))
    assert row["drift"] == pytest.approx(4.0 * 0.05)
    assert row["lift"] == pytest.approx(0.06)
    (row,) = walking_rows(even_motion(0.0, (0.03, 0.04, 0.0), 0.0, (0.5, 0.0, 0.0)))
    assert "drift" not in row


@pytest.mark.slow
def test_the_robust_suite_prints_every_case_and_writes_it(walking_run, tmp_path, capsys):
    path = tmp_path / "suite.json"
    flags = ["--run-dir", str(walking_run.folder), "--suite", "robust", "--seconds", "3"]
    assert main([*flags, "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    found = json.loads(path.read_text())
    cases = robust_cases(legs=2, other=True)
    names = [case.name for case in cases]
    assert [case["name"] for case in found["cases"]] == names
    assert all(name in printed for name in names)
    assert found["timestep"] == 0.002
    trials = [case["trials"] for case in found["cases"]]
    # a drive has eight robots
    assert trials == [8 if case.course == "drive" else 10 * case.repeats for case in cases]
    settled = [case["settle_s"] for case in found["cases"] if "settle_s" in case]
    assert len(settled) == 1
    assert 0.0 <= settled[0] <= 0.38  # a quarter of the second half
    assert all(0 <= case["falls"] <= case["trials"] for case in found["cases"])
    # the first case is the plain evaluation
    alone = evaluate(walking_run, seconds=3.0)
    assert len(found["rows"]) == len(alone.rows) == 10
    assert found["cases"][0]["velocity_error"] == pytest.approx(found["mean"]["velocity_error"])


def test_a_quadruped_is_asked_for_more():
    fastest = np.abs(commands_for(get_robot("go1"))).max(axis=0)
    np.testing.assert_allclose(fastest, [1.0, 0.5, 1.0])
    assert commands_for(get_robot("g1")) == COMMANDS


def test_the_first_two_seconds_do_not_count():
    trajectory = even_motion(0.0, (0.5, 0.0, 0.0), 0.0, (0.5, 0.0, 0.0))
    trajectory.steps.qvel[:100] = 99.0
    (row,) = walking_rows(trajectory)
    assert row["velocity_error"] == 0.0
    assert row["yaw_error"] == 0.0


@pytest.mark.slow
def test_velocity_error_agrees_with_mujoco(walking_run):
    found = evaluate(walking_run, seconds=3.0, seed=5)
    trajectory = drive(walking_run.config, walking_run.policy, COMMANDS, 3.0, seed=5)
    model = get_robot("g1_12dof").load()
    data, body, velocity = mujoco.MjData(model), model.body("pelvis").id, np.zeros(6)
    column = 1  # commanded to walk forward at 1 m/s
    errors = []
    for step in range(100, 150):
        data.qpos[:] = trajectory.qpos[step, column]
        data.qvel[:] = np.asarray(trajectory.steps.qvel)[step, column]
        mujoco.mj_forward(model, data)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, velocity, 1)
        errors.append(np.hypot(velocity[3] - 1.0, velocity[4]))
    assert found.rows[column]["command"] == [1.0, 0.0, 0.0]
    assert found.rows[column]["velocity_error"] == pytest.approx(np.mean(errors), abs=1e-5)
    mean = np.mean([row["velocity_error"] for row in found.rows])
    assert found.mean["velocity_error"] == pytest.approx(mean)


@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--json"], ["--json", "-"], ["--json", "--suite", "commands"]])
def test_json_on_stdout_is_nothing_but_json(flags, walking_run, capsys):
    assert main(["--run-dir", str(walking_run.folder), "--seconds", "3", *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["robot"] == "g1_12dof"
    assert found["iteration"] == 2
    assert [tuple(row["command"]) for row in found["rows"]] == list(COMMANDS)
    figures = {"velocity_error", "yaw_error", "falls", "power", "self_contacts"}
    assert set(found["mean"]) == figures | {"drift", "lift"}


@pytest.mark.slow
def test_cartpole_has_figures_of_its_own(cartpole_run, tmp_path, capsys):
    path = tmp_path / "figures.json"
    flags = ["--run-dir", str(cartpole_run.folder), "--seconds", "1", "--json", str(path)]
    assert main(flags) == 0
    assert "upright share" in capsys.readouterr().out
    found = json.loads(path.read_text())
    assert set(found["mean"]) == {"return", "upright_share", "upright_at_end"}
    assert len({row["return"] for row in found["rows"]}) == len(found["rows"]) == 16


def is_refused(flags, offending, capsys) -> None:
    assert main(flags) == 2
    error = capsys.readouterr().err
    assert offending in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "offending"),
    [
        (["--run-dri", "x"], "--run-dri"),
        ([], "--run-dir"),
        (["--run-dir", "{tmp}/nothing"], "{tmp}/nothing"),
        (["--run-dir", "{tmp}"], "{tmp}"),
        (["--run-dir", "{tmp}", "--iteration", "-1"], "-1"),
        (["--policy", "zoo:g1", "--seconds", "2"], "--seconds"),
        (["--policy", "zoo:g1", "--seconds", "soon"], "soon"),
        (["--policy", "zoo:g1", "--push", "1e9"], "--push"),
        (["--policy", "zoo:g1", "--suite", "robus"], "robus"),
        (["--policy", "zoo:g1", "--suite", "robust", "--push", "1"], "--push"),
        (["--policy", "zoo:g1", "--json", "{tmp}/no/such/folder.json"], "{tmp}/no/such"),
    ],
)
def test_bad_input_is_one_line(flags, offending, tmp_path, capsys):
    is_refused(
        [word.format(tmp=tmp_path) for word in flags], offending.format(tmp=tmp_path), capsys
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "offending"),
    [
        (["--iteration", "77"], "77"),
        (["--suite", "robust"], "cartpole"),
        (["--push", "1"], "cartpole"),
    ],
)
def test_what_a_run_does_not_have_is_one_line(flags, offending, cartpole_run, capsys):
    is_refused(["--run-dir", str(cartpole_run.folder), *flags], offending, capsys)


@pytest.mark.slow
def test_a_run_without_a_checkpoint_is_refused(walking_run, tmp_path, capsys):
    (tmp_path / "config.json").write_text((walking_run.folder / "config.json").read_text())
    assert main(["--run-dir", str(tmp_path)]) == 2
    assert str(tmp_path) in capsys.readouterr().err


def test_a_task_without_commands_is_measured_by_its_own_figures():
    """Two robots, three steps; the second one fell once."""
    fell = np.array([[False, False], [False, True], [False, False]])
    figures = {"speed": np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]])}
    steps = Step(None, None, None, fell, np.ones((3, 2)), figures)
    rows = diagnostic_rows(Trajectory("hopper", 0.02, 0.002, steps))
    assert rows == [
        {"return": 3.0, "falls": 0, "speed": 2.0},
        {"return": 3.0, "falls": 1, "speed": 2.0},
    ]
