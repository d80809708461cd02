"""Which physics engine a run takes, and whether it can."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from jaxrl_hw.checkpointing.provenance import package_versions
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.config.schema import Config, Engine
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.passed_checks import has_passed
from jaxrl_hw.planning.devices import is_sharded

WARP: Literal["warp"] = "warp"
"""The check of the doctor's, and the engine."""
_WARP_RESTS_ON = ("jax", "jaxlib", "mujoco", "mujoco-mjx", "warp-lang")


def settled(config: Config, hardware: Hardware) -> tuple[Config, list[str]]:
    """The config with an engine, and what the user should know about it.

    Raises:
      UserError: the engine cannot run here, or cannot do what the config asks for.
    """
    if robot_spec(config).mjcf is None:
        return _own(config), []
    if config.physics == "auto":
        return _chosen(config, hardware)
    if config.physics == WARP:
        _check_warp(config, hardware)
    if config.physics != "native" and hardware.platform == "cpu":
        name = {"mjx": "MJX", WARP: "MuJoCo Warp"}[config.physics]
        return config, [f"{name} on a CPU is many times slower than --physics native"]
    return config, []


def _own(config: Config) -> Config:
    """The config of an environment that brings its own physics, which runs on the device."""
    for flag, is_given in (
        (f"--physics {config.physics}", config.physics not in ("auto", "mjx")),
        (f"--timestep {config.timestep:g}", bool(config.timestep)),
    ):
        if is_given:
            raise UserError(f"{flag} does not go with {config.robot}, which has its own physics")
    return replace(config, physics="mjx")


def _chosen(config: Config, hardware: Hardware) -> tuple[Config, list[str]]:
    if hardware.platform != "gpu":
        engine: Engine = "native" if hardware.platform == "cpu" else "mjx"
        return replace(config, physics=engine), []
    if not _is_installed() or config.deterministic or is_sharded(config):
        return replace(config, physics="mjx"), []
    if has_passed(WARP, hardware.name, warp_versions()):
        return replace(config, physics=WARP), []
    note = (
        "MuJoCo Warp is installed, and not checked on this GPU with these versions: after "
        "`python -m jaxrl_hw.doctor` --physics auto takes it where it passes"
    )
    return replace(config, physics="mjx"), [note]


def warp_versions() -> Mapping[str, str]:
    """Of the packages that a check of Warp holds for."""
    return {n: v for n, v in package_versions().items() if n in _WARP_RESTS_ON}


def _check_warp(config: Config, hardware: Hardware) -> None:
    if is_sharded(config):
        raise UserError(
            f"--devices {config.devices} does not go with --physics warp, which has been tried on "
            "one device only: use --physics mjx, or leave --devices out"
        )
    if hardware.platform == "tpu":
        raise UserError("--physics warp runs on NVIDIA GPUs and CPUs, not on a TPU: use mjx")
    if not _is_installed():
        raise UserError(
            "--physics warp needs the package warp-lang, which is not installed: "
            'pip install "jaxrl_hw[warp]", or use --physics mjx'
        )
    if config.deterministic and hardware.platform == "gpu":
        raise UserError(
            "--deterministic is not possible with --physics warp, whose results do not repeat to "
            "the bit on a GPU: use --physics mjx, or leave --deterministic out"
        )


def _is_installed() -> bool:
    return importlib.util.find_spec("warp") is not None
