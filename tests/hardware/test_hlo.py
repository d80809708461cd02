"""Launches are counted from a compiled program's text: loops by their trips, nothing twice."""

from __future__ import annotations

from jaxrl_hw.hardware.hlo import launches

PROGRAM = """HloModule jit_f

%fused (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  ROOT %add = f32[4]{0} add(%p, %p)
}

%inner (s: (f32[4])) -> (f32[4]) {
  %s = (f32[4]{0}) parameter(0)
  %x = f32[4]{0} get-tuple-element(%s), index=0
  %one = f32[4]{0} fusion(%x), kind=kLoop, calls=%fused
  %two = f32[4]{0} copy(%one)
  ROOT %out = (f32[4]{0}) tuple(%two)
}

%more (t: (f32[4])) -> pred[] {
  %t = (f32[4]{0}) parameter(0)
  ROOT %less = pred[] fusion(%t), kind=kLoop, calls=%fused
}

%outer (u: (f32[4])) -> (f32[4]) {
  %u = (f32[4]{0}) parameter(0)
  %y = (f32[4]{0}) while(%u), condition=%more, body=%inner
  ROOT %z = (f32[4]{0}) bitcast(%y)
}

ENTRY %main (a: f32[4]) -> (f32[4]) {
  %a = f32[4]{0} parameter(0)
  %start = (f32[4]{0}) tuple(%a)
  %known = (f32[4]{0}) while(%start), condition=%more, body=%outer, backend_config={"known_trip_count":{"n":"5"}}
  %last = f32[4]{0} custom-call(%known), custom_call_target="x"
  ROOT %end = (f32[4]{0}) tuple(%last)
}
"""  # noqa: E501


def test_a_known_loop_counts_its_trips_and_an_unknown_one_those_given() -> None:
    # a trip of the inner loop: two kernels and its condition; of the outer: that, and its condition
    assert launches(PROGRAM, trips=1) == (5 * (3 + 1) + 1, 5)
    assert launches(PROGRAM, trips=8) == (5 * (8 * 3 + 1) + 1, 40)
