"""Figures are kept between runs, and losing them costs nothing but time."""

from __future__ import annotations

import pytest

from jaxrl_hw.hardware.measurement_cache import EMPTY, Measurement, load, store

PROGRAM = {"robot": "g1", "net": {"policy": (256, 128)}, "device": "EPYC"}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_remembered_is_recalled_and_added_to():
    assert load(PROGRAM) == EMPTY
    store(PROGRAM, points={64: {"rollout": 3}}, rates={64: 900.0})
    store(PROGRAM, points={128: {"rollout": 6}}, rates={64: 700.0, 128: 1200.0}, resident=5)
    known = load(PROGRAM)
    assert known.points == {64: {"rollout": 3}, 128: {"rollout": 6}}
    assert known.rates == {64: 900.0, 128: 1200.0}, "a busy machine is no slower machine"
    assert (known.resident, known.compiling) == (5, None)


def test_another_program_has_figures_of_its_own():
    store(PROGRAM, resident=5)
    for other in ({**PROGRAM, "device": "Xeon"}, {**PROGRAM, "net": {"policy": (256, 129)}}):
        assert load(other) == EMPTY


def test_the_compiler_s_peak_is_that_of_a_cold_start():
    store(PROGRAM, compiling=900)
    assert store(PROGRAM, compiling=500).compiling == 900


def test_what_one_run_held_is_not_taken_for_every_run_s():
    for held in (540, 560, 570):
        store(PROGRAM, resident=held)
    store(PROGRAM, rates={64: 900.0})
    assert load(PROGRAM).resident == 560


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 1}', '{"format": 2, "points": {}}'])
def test_a_damaged_record_counts_as_none(text, cache):
    store(PROGRAM, resident=5)
    (path,) = (cache / "measurements").iterdir()
    path.write_text(text)
    assert load(PROGRAM) == EMPTY
    store(PROGRAM, resident=7)
    assert load(PROGRAM).resident == 7


def test_a_cache_that_cannot_be_written_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "file"))
    assert store(PROGRAM, resident=5).resident == 5
    assert load(PROGRAM) == EMPTY
    assert (tmp_path / "file").read_text() == ""


def test_another_lowered_program_discards_what_was_measured():
    store(PROGRAM, points={64: {"rollout": 3}}, rates={64: 900.0}, lowered={64: "a"})
    known = store(PROGRAM, points={128: {"rollout": 6}}, lowered={128: "b"})
    assert set(known.points) == {64, 128}, "another number of environments is another text"
    assert store(PROGRAM, lowered={64: "a"}) == known
    known = store(PROGRAM, points={64: {"rollout": 4}}, lowered={64: "c"})
    assert load(PROGRAM) == known == Measurement({64: {"rollout": 4}}, {}, None, None, {64: "c"})
