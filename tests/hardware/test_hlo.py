"""What a compiled program asks of a card, from its text: loops by their trips, slices as slices."""

from __future__ import annotations

from jaxrl_hw.hardware.hlo import work

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

%fewer (q: f32[4]) -> pred[] {
  %q = f32[4]{0} parameter(0)
  %sum = f32[] reduce(%q)
  %bound = f32[] constant(1)
  ROOT %below = pred[] compare(%sum, %bound), direction=LT
}

%more (t: (f32[4])) -> pred[] {
  %t = (f32[4]{0}) parameter(0)
  %v = f32[4]{0} get-tuple-element(%t), index=0
  ROOT %less = pred[] fusion(%v), kind=kLoop, calls=%fewer
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


PARTS = """HloModule jit_g

%one_row (p: f32[8,4], i: s32[], x: f32[1,4]) -> f32[8,4] {
  %p = f32[8,4]{1,0} parameter(0)
  %i = s32[] parameter(1)
  %x = f32[1,4]{1,0} parameter(2)
  %zero = s32[] constant(0)
  %row = f32[1,4]{1,0} dynamic-slice(%p, %i, %zero), dynamic_slice_sizes={1,4}
  %sum = f32[1,4]{1,0} add(%row, %x)
  ROOT %put = f32[8,4]{1,0} dynamic-update-slice(%p, %sum, %i, %zero)
}

ENTRY %main (a: f32[8,4], n: s32[], b: f32[1,4], c: f32[4,16]) -> f32[8,16] {
  %a = f32[8,4]{1,0} parameter(0)
  %n = s32[] parameter(1)
  %b = f32[1,4]{1,0} parameter(2)
  %c = f32[4,16]{1,0} parameter(3)
  %next = f32[8,4]{1,0} fusion(%a, %n, %b), kind=kLoop, calls=%one_row
  %gemm = (f32[8,16]{1,0}, s8[4096]{0}) custom-call(%next, %c), custom_call_target="__cublas$gemm", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
  ROOT %out = f32[8,16]{1,0} get-tuple-element(%gemm), index=0
}
"""  # noqa: E501


def test_a_known_loop_counts_its_trips_and_an_unknown_one_those_given() -> None:
    # a trip of the inner loop: two kernels and its condition; of the outer: that, and its condition
    assert work(PROGRAM, trips=1)[:2] == (5 * (3 + 1) + 1, 5)
    assert work(PROGRAM, trips=8)[:2] == (5 * (8 * 3 + 1) + 1, 40)


def test_bytes_and_operations_follow_the_loops_too() -> None:
    kernel, adds = 2 * 16, 4  # reads and writes f32[4], and adds that many
    inner = work(PROGRAM, trips=8)
    assert inner.flops == 5 * (8 * adds + 8 * adds + adds)  # a condition adds up four
    assert inner.bytes == 5 * (8 * (2 * kernel + 17) + 17) + kernel


def test_of_a_slice_that_is_read_and_written_the_slice_counts() -> None:
    row, table = 16, 8 * 16
    found = work(PARTS)
    assert found.launches == 2
    # the fusion: its row read and written, an index, what is added; the product: no scratch space
    assert found.bytes == (2 * row + 4 + row) + (table + 4 * 64 + 8 * 64)
    assert found.flops == 4 + 2 * 8 * 4 * 16
