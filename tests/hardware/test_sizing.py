"""A run is sized to what is free, and says why; what cannot be is refused with numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxrl_hw.config.units import parse_fraction, parse_memory, parse_num_envs
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.sizing import (
    Limits,
    MemoryNeed,
    check_num_envs,
    choose_num_envs,
    enough_envs,
)

GB = 10**9
GPU = Hardware("gpu", "Tesla T4", 1, 2, 16 * GB, 15 * GB, "nvml")
CPU = Hardware("cpu", "EPYC", 1, 2, 16 * GB, 10 * GB, "psutil available")
NEED = MemoryNeed(fixed=2 * GB, per_env=2_000_000)


def choose(hardware=GPU, need=NEED, bounds=(64, 8192), fraction="auto"):
    return choose_num_envs(hardware, need=need, bounds=bounds, limits=Limits(fraction))


def test_the_largest_number_that_fits_is_taken():
    sizing = choose()
    assert sizing.budget_bytes == 12 * GB
    assert sizing.num_envs == 5000  # 10 GB / 2 MB
    assert sizing.expected_bytes == 2 * GB + 5000 * 2_000_000
    assert "5,000" in sizing.reasons[-1]
    assert sizing.bound_by_memory
    assert [c.fits for c in sizing.candidates if c.num_envs in (64, 5000, 8192)] == [
        True,
        True,
        False,
    ]


def test_a_share_is_of_the_whole_but_never_more_than_is_free():
    assert choose(fraction=0.5).budget_bytes == 8 * GB
    sizing = choose(replace(GPU, memory_free=4 * GB), fraction=0.5)
    assert sizing.budget_bytes == int(0.95 * 4 * GB)
    assert "--mem-fraction 0.5" in sizing.reasons[0]


def test_the_bounds_hold_where_memory_is_plenty():
    sizing = choose(bounds=(64, 1000))
    assert sizing.num_envs == 1000
    assert "1,000" in sizing.reasons[-1]


def test_a_cpu_takes_no_more_than_pay():
    sizing = choose(CPU)
    assert sizing.num_envs == 256
    assert sizing.budget_bytes == 6 * GB
    assert "2 cores" in sizing.reasons[-1]
    assert not sizing.bound_by_memory


def test_unknown_memory_takes_the_least():
    sizing = choose(replace(GPU, memory_free=None, memory_total=None, memory_source="unknown"))
    assert sizing.num_envs == 64
    assert sizing.budget_bytes is None
    assert GPU.name in sizing.reasons[0]


def test_little_memory_goes_below_the_least():
    sizing = choose(replace(GPU, memory_free=2_600_000_000))
    assert sizing.num_envs == 40
    assert "64" in sizing.reasons[-1]


def test_too_little_memory_is_refused_with_numbers():
    for sized in (choose, lambda hw: check_num_envs(1, hw, need=NEED)):
        with pytest.raises(UserError, match=r"2\.0 GB.*Tesla T4"):
            sized(replace(GPU, memory_free=2 * GB))


def test_a_given_number_is_taken_if_it_fits():
    assert check_num_envs(6000, GPU, need=NEED).num_envs == 6000
    with pytest.raises(UserError, match=r"7000.*16\.0 GB.*14\.2 GB") as caught:
        check_num_envs(7000, GPU, need=NEED)
    assert "6125" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"8\.0 GB"):
        check_num_envs(6000, GPU, need=NEED, limits=Limits(0.5))
    unknown = replace(GPU, memory_free=None)
    assert check_num_envs(6000, unknown, need=NEED).budget_bytes is None


@pytest.mark.parametrize("text", ["0", "-5", "abc", "1.5", "", "1e3", "\uff11\uff12", "auto1"])
def test_bad_num_envs_are_refused_in_one_line(text):
    with pytest.raises(UserError) as caught:
        parse_num_envs(text)
    assert "--num-envs" in str(caught.value)
    assert f'"{text}"' in str(caught.value)
    assert "\n" not in str(caught.value)


def test_good_arguments():
    assert parse_num_envs("auto") == parse_num_envs(" AUTO ") == "auto"
    assert parse_num_envs("512") == parse_num_envs(512) == 512
    assert parse_fraction("auto") == "auto"
    assert parse_fraction("0.8") == parse_fraction(0.8) == 0.8


@pytest.mark.parametrize("text", ["0", "1", "-0.5", "nan", "abc", "inf"])
def test_bad_fractions_are_refused(text):
    with pytest.raises(UserError, match=r"--mem-fraction.*0\.05"):
        parse_fraction(text)


def test_a_percentage_is_understood_well_enough_to_suggest():
    with pytest.raises(UserError, match=r" 0\.8\?"):
        parse_fraction("80")


def test_a_limit_is_kept_with_something_to_spare():
    limits = Limits(memory=4 * GB)
    for hardware in (GPU, CPU):
        sizing = choose_num_envs(
            hardware,
            need=NEED,
            bounds=(64, 8192),
            limits=limits._replace(max_envs=8192),
        )
        assert 0.9 * 4 * GB < sizing.expected_bytes <= 0.92 * 4 * GB
        assert sizing.bound_by_memory
        assert "--memory-limit 4.0 GB" in sizing.reasons[0]
    assert choose().budget_bytes == 12 * GB


def test_what_is_free_binds_before_a_larger_limit():
    sizing = choose_num_envs(GPU, need=NEED, bounds=(64, 8192), limits=Limits(memory=100 * GB))
    assert sizing == choose()


def test_a_limit_below_the_least_says_the_least():
    limits = Limits(memory=2 * GB)
    with pytest.raises(UserError, match="--memory-limit") as at:
        choose_num_envs(GPU, need=NEED, bounds=(64, 8192), limits=limits)
    least = parse_memory(str(at.value).split()[-1])
    assert least is not None
    enough = Limits(memory=least)
    assert choose_num_envs(GPU, need=NEED, bounds=(64, 8192), limits=enough).num_envs >= 1


def test_compiling_has_to_fit_as_well():
    need = NEED._replace(compiling=5 * GB)
    assert choose(need=need).num_envs == choose().num_envs, "it is over when the run begins"
    limits = Limits(memory=5 * GB)
    with pytest.raises(UserError, match=r"5\.0 GB"):
        choose_num_envs(GPU, need=need, bounds=(64, 8192), limits=limits)
    assert choose_num_envs(GPU, need=NEED, bounds=(64, 8192), limits=limits)


def test_more_environments_than_usual_are_the_user_s_to_ask_for():
    asked = Limits(max_envs=1500)
    sizing = choose_num_envs(CPU, need=NEED, bounds=(64, 4096), limits=asked)
    assert sizing.num_envs == 1500
    assert "--max-envs 1,500" in sizing.reasons
    fewer = choose_num_envs(GPU, need=NEED, bounds=(64, 4096), limits=Limits(max_envs=100))
    assert fewer.num_envs == 100


def test_measured_speeds_are_shown_and_decide_nothing():
    """They vary with what else the machine did, and what is learned must not."""
    unknown = choose_num_envs(CPU, need=NEED, bounds=(64, 4096))
    for rates in ({64: 900.0, 128: 901.0, 256: 902.0}, {256: 1.0, 512: 1e6, 4096: 1e9}):
        sizing = choose_num_envs(CPU, need=NEED, bounds=(64, 4096), rates=rates)
        assert sizing.num_envs == unknown.num_envs == 256
        assert sizing.reasons == unknown.reasons
        told = {c.num_envs: c.steps_per_s for c in sizing.candidates}
        assert told == {n: rates.get(n) for n in told}
        assert rates.keys() <= told.keys()


def test_speeds_say_from_which_number_on_more_gain_nothing():
    assert enough_envs({64: 900.0, 128: 920.0, 256: 1000.0}) == 64
    assert enough_envs({64: 500.0, 128: 900.0, 256: 1000.0, 512: 1010.0}) == 256
    assert enough_envs({64: 500.0, 128: 900.0, 256: 1500.0, 512: 2000.0}) is None
    assert enough_envs({100: 900.0, 120: 900.0}) is None, "sizes too close tell nothing"
    assert enough_envs({}) is None


def test_every_size_looked_at_has_a_verdict():
    sizing = choose(replace(GPU, memory_free=10 * GB))
    verdicts = {c.num_envs: c.verdict for c in sizing.candidates}
    assert verdicts[64] == "fits"
    assert verdicts[sizing.num_envs] == "tight"
    assert verdicts[8192] == "fails"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("900MB", 900 * 10**6), ("6gb", 6 * GB), ("2GiB", 2 << 30), ("1.5 G", 1.5 * GB), ("", None)],
)
def test_sizes_as_people_write_them(text, expected):
    assert parse_memory(text) == expected


@pytest.mark.parametrize(
    "text", ["5", "GB", "-1GB", "1XB", "1e9", "lots", "0GB", "1 GB free", "nan"]
)
def test_nonsense_sizes_are_refused_in_a_line(text):
    with pytest.raises(UserError, match="--memory-limit") as caught:
        parse_memory(text)
    assert "\n" not in str(caught.value)
