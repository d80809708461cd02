"""A training in a process of its own that fails says why."""

from __future__ import annotations

from jaxrl_hw.planning.benchmark import failure


def test_a_failure_has_its_code_and_its_last_line() -> None:
    assert "9" in failure(-9, "half a line")
    assert "half" not in failure(-9, "half a line")
    assert "1" in failure(1, "")
    text = failure(1, "warning: slow\nerror: disk full\nsome trace\n")
    assert "disk full" in text
    assert "\n" not in text
