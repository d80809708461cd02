"""Kinds of hardware are found by what people and drivers call them."""

from __future__ import annotations

import pytest

from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import profiles

GIB = 1 << 30


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("t4", "t4"),
        ("Tesla T4", "t4"),
        ("RTX 4060 Laptop", "rtx4060-laptop"),
        ("rtx-4090", "rtx4090"),
        ("NVIDIA GeForce RTX 3060", "rtx3060"),
        ("A100_40", "a100-40"),
        ("tpu-v5e", "tpu-v5e"),
    ],
)
def test_people_write_names_in_many_ways(said, name):
    assert profiles.named(said).name == name


@pytest.mark.parametrize(
    ("said", "first"), [("rtx4060", "rtx4060-laptop"), ("a100", "a100-40"), ("rtx3080", "rtx3090")]
)
def test_an_unknown_one_lists_all_the_nearest_first(said, first):
    with pytest.raises(UserError) as caught:
        profiles.named(said)
    text = str(caught.value).partition(f'"{said}"')[2]
    names = [profile.name for profile in profiles.PROFILES[1:]]
    assert min(names, key=text.index) == first


def test_a_cpu_is_no_gpu():
    with pytest.raises(UserError):
        profiles.named("cpu")


@pytest.mark.parametrize(
    ("device", "memory", "name"),
    [
        ("NVIDIA A100-SXM4-40GB", 40 * GIB, "a100-40"),
        ("NVIDIA A100-SXM4-80GB", 80 * GIB, "a100-80"),
        ("NVIDIA A100 80GB PCIe", 80 * GIB, "a100-80"),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", 8 * GIB, "rtx4060-laptop"),
        ("NVIDIA H100 80GB HBM3", 80 * GIB, "h100"),
        ("Tesla V100-SXM2-16GB", 16 * GIB, "v100"),
        ("Tesla T4", None, "t4"),
    ],
)
def test_a_driver_s_name_finds_its_profile(device, memory, name):
    assert profiles.of("gpu", device, memory).name == name


def test_a_card_that_is_not_listed_is_taken_for_an_old_one():
    profile = profiles.of("gpu", "NVIDIA GeForce GTX 1080 Ti")
    assert (profile.name, profile.bfloat16, profile.reserved > 0) == ("unknown", False, True)
    assert profiles.of("cpu", "AMD EPYC") == profiles.CPU


def test_bfloat16_pays_from_ampere_on():
    assert not any(profiles.named(name).bfloat16 for name in ("t4", "v100"))
    assert all(profiles.named(name).bfloat16 for name in ("a100-40", "l4", "rtx3060", "h200"))
