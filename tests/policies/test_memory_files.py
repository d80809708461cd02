"""Files of policies with a memory: they go on from call to call as the policy does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from jaxrl_hw import Run, preset_config
from jaxrl_hw.config.fields import with_values
from jaxrl_hw.errors import UserError
from jaxrl_hw.evaluation.drive import drive as drive_robots
from jaxrl_hw.export import main
from jaxrl_hw.policies.from_state import as_policy, portable
from jaxrl_hw.policies.io import load_policy, save_policy
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.run_policy import Policy
from jaxrl_hw.policies.verification import drive, episodes_of, open_file, sample_observations

SHAPES = {"history": ("history", [2, 5]), "gru": ("state", [8])}


@pytest.fixture(scope="module", params=list(SHAPES))
def remembering(request: Any, train_run: Any, tmp_path_factory: Any) -> Run:
    """A short run of cartpole with a memory, of which the policy makes use."""
    net = with_values(preset_config("cartpole"), {"net.policy": (16,), "net.value": (16,)}).net
    net = replace(net, memory=request.param, history=3, gru=8)
    run: Run = train_run("cartpole", tmp_path_factory.mktemp("run") / "run", iterations=4, net=net)
    return run


@pytest.fixture(scope="module")
def folder(remembering: Run, tmp_path_factory: Any) -> Path:
    """Its export."""
    out = tmp_path_factory.mktemp("export") / "out"
    assert main(["--run-dir", str(remembering.folder), "--out", str(out)]) == 0
    return Path(out)


@pytest.fixture(scope="module")
def policy(folder: Path) -> PortablePolicy:
    return load_policy(folder / "policy.npz")


@pytest.fixture(scope="module")
def episodes(policy: PortablePolicy) -> np.ndarray:
    found = episodes_of(policy, sample_observations(policy, seed=3))
    assert found.shape == (20, 50, 5)
    return found


@pytest.mark.slow
def test_every_file_goes_through_an_episode_as_the_run_does(
    remembering: Run, folder: Path, policy: PortablePolicy, episodes: np.ndarray
) -> None:
    expected = drive(remembering.policy, episodes)
    assert np.abs(expected[1:] - np.stack([policy(x) for x in episodes[1:]])).max() > 1e-5, (
        "a policy that forgets would agree"
    )
    names = {path.name for path in folder.iterdir()}
    assert {"policy.onnx", "policy.npz", "run_policy.py"} <= names
    for name in names:
        np.testing.assert_allclose(open_file(folder / name).run(episodes), expected, atol=1e-5)
    np.testing.assert_allclose(drive(as_policy(policy), episodes), expected, atol=1e-5)


@pytest.mark.slow
def test_onnx_takes_and_gives_the_memory(
    remembering: Run, folder: Path, episodes: np.ndarray
) -> None:
    name, shape = SHAPES[remembering.config.net.memory]
    session = onnxruntime.InferenceSession(str(folder / "policy.onnx"))
    put = [(value.name, value.shape) for value in session.get_inputs()]
    got = [(value.name, value.shape) for value in session.get_outputs()]
    assert put == [("obs", ["batch", 5]), (name, ["batch", *shape])]
    assert got == [("action", ["batch", 1]), (f"{name}_out", ["batch", *shape])]
    one = episodes[:, :1]
    memory, actions = np.zeros((1, *shape), np.float32), []
    for seen in one:
        action, memory = session.run(None, {"obs": seen, name: memory})
        actions.append(action)
    np.testing.assert_allclose(np.stack(actions), drive(remembering.policy, one), atol=1e-5)


@pytest.mark.slow
def test_the_numpy_runner_remembers_until_it_is_reset(folder: Path, episodes: np.ndarray) -> None:
    runner, one = Policy(folder / "policy.npz"), episodes[:, 0]
    first = [runner(seen) for seen in one]
    going_on = runner(one[0])
    runner.reset_memory()
    again = [runner(seen) for seen in one]
    np.testing.assert_array_equal(first, again)
    assert first[0].shape == (1,)
    assert np.any(going_on != first[0])
    assert runner(episodes[0]).shape == (50, 1)  # of other robots, which remember nothing


@pytest.mark.slow
def test_torchscript_holds_its_memory(folder: Path, remembering: Run, episodes: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    net, one = torch.jit.load(str(folder / "policy.pt")), torch.from_numpy(episodes[:, :1].copy())
    expected = drive(remembering.policy, episodes[:, :1])
    for _ in range(2):
        actions = np.stack([net(seen).detach().numpy() for seen in one])
        np.testing.assert_allclose(actions, expected, atol=1e-5)
        net.reset_memory()


@pytest.mark.slow
def test_a_driven_robot_forgets_where_it_falls() -> None:
    calls = []

    class Counting:
        """Its memory counts the steps of an episode."""

        def start(self, count: int) -> np.ndarray:
            return np.zeros((count, 1), np.float32)

        def step(self, obs: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            calls.append(np.asarray(memory)[:, 0])
            action = np.zeros((len(obs), 12), np.float32)
            action[0] = 3.0  # the first one falls
            return action, np.asarray(memory) + 1.0

    config = preset_config("g1_12dof")
    found = drive_robots(config, Counting(), np.zeros((2, 3)), 3.0)
    assert found.fell[:, 0].any()
    expected = np.zeros(2)
    for seen, fell in zip(calls, found.fell, strict=True):
        np.testing.assert_array_equal(seen, expected)
        expected = np.where(fell, 0.0, expected + 1.0)


@pytest.mark.parametrize(
    ("memory", "offending"),
    [
        ({"kind": "lstm", "size": 8}, "lstm"),
        ({"kind": "history", "size": 0}, "history"),
        ({"kind": "gru", "size": 8}, "gru_in"),
        ({"kind": "history", "size": 3}, "kernel0"),
    ],
)
def test_a_memory_that_the_arrays_do_not_have_is_refused(
    memory: dict[str, Any], offending: str, walker: PortablePolicy, tmp_path: Path
) -> None:
    save_policy(replace(walker, meta=walker.meta | {"memory": memory}), tmp_path / "bad.npz")
    with pytest.raises(UserError, match=offending):
        load_policy(tmp_path / "bad.npz")


@pytest.mark.slow
def test_a_policy_exported_from_a_state_has_the_memory_of_its_run(remembering: Run) -> None:
    net = remembering.config.net
    size = {"history": net.history, "gru": net.gru}[net.memory]
    assert portable(remembering.config, remembering.state).memory == (net.memory, size)
