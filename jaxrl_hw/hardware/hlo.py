"""What a program that XLA has compiled for a GPU asks of the card, read from its text (optimized
HLO): kernels to launch, bytes to move, floating-point operations."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*?) ([a-z][a-z\-]*)\(([^)]*)\)(.*)$")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_BODY, _CONDITION = re.compile(r"body=%?([\w.\-]+)"), re.compile(r"condition=%?([\w.\-]+)")
_CALLED = re.compile(r"(?:to_apply|calls|called_computations=\{)=?%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_ARRAY = re.compile(r"\b(pred|token|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_NAME = re.compile(r"%([\w.\-]+)")
_CONTRACTED = re.compile(r'lhs_contracting_dim(?:s=\{|ensions":\[)([\d,"]*)')
_FREE = frozenset(
    (
        *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "opt-barrier"),
        *("after-all", "partition-id", "replica-id", "copy-done", "async-done"),
    )
)
"""Instructions that run nothing on the device."""
_MOVES = _FREE | frozenset(
    (
        *("copy", "broadcast", "reshape", "transpose", "slice", "concatenate", "pad", "reverse"),
        *("iota", "convert", "select", "dynamic-slice", "dynamic-update-slice", "gather"),
        *("scatter", "fusion", "sort", "copy-start", "custom-call", "while", "conditional", "call"),
    )
)
"""Instructions that are no floating-point arithmetic of their own."""
_READ_IN_PART = ("dynamic-slice", "gather", "slice")
_WRITTEN_IN_PART = {"dynamic-update-slice": 1, "scatter": 2}
"""Instructions that change a part of their first operand, where it lies, and which operand it is
that they write."""


class Work(NamedTuple):
    """What one execution asks of a card at most."""

    launches: int
    """Kernels and copies."""
    waits: int
    """Loops whose end the host has to read from the device, counted once per trip."""
    bytes: int
    """That kernels read and write: each array once per kernel, of a slice the slice. Less, where
    the card's cache still holds what the kernel before has written."""
    flops: int
    """Products and sums of matrices, and one for each number that other arithmetic makes. Calls of
    libraries other than for products (small factorizations) count nothing."""


class _Instruction(NamedTuple):
    name: str
    shape: str
    kind: str
    operands: tuple[str, ...]
    rest: str  # what follows the operands
    is_root: bool


_Computations = dict[str, dict[str, _Instruction]]


def work(text: str, trips: int = 1) -> Work:
    """What a compiled program asks of a card.

    text: of `jax.stages.Compiled.as_text()`.
    trips: of loops whose number of trips the compiler does not know (a solver's iterations).
    """
    computations, entry = _parsed(text)
    return _count(computations, entry, trips)


def _count(computations: _Computations, name: str, trips: int) -> Work:
    """The work of a computation and of all that it calls."""
    inside = computations.get(name, {})
    total = Work(0, 0, 0, 0)
    for one in inside.values():
        if one.kind == "while":
            known = _TRIPS.search(one.rest)
            times = int(known[1]) if known else trips
            body, condition = (
                _count(computations, _one(pattern, one.rest), trips)
                for pattern in (_BODY, _CONDITION)
            )
            inner = _sum(body, condition, Work(0, 0 if known else 1, 0, 0))
            total = _sum(total, Work(*(times * value for value in inner)))
        elif one.kind in ("call", "async-start") and _CALLED.search(one.rest):
            total = _sum(total, _count(computations, _one(_CALLED, one.rest), trips))
        elif one.kind == "conditional":
            names = [word.strip(" %") for word in _one(_BRANCHES, one.rest).split(",")]
            branches = [_count(computations, branch, trips) for branch in names]
            largest = Work(*(max(values) for values in zip(*branches, strict=True)))
            total = _sum(total, largest, Work(1, 0, 0, 0))
        elif one.kind not in _FREE:
            moved = _moved(computations, inside, one)
            total = _sum(total, Work(1, 0, moved, _flops(computations, inside, one)))
    return total


def _sum(*parts: Work) -> Work:
    return Work(*map(sum, zip(*parts, strict=True)))


def _moved(computations: _Computations, inside: dict[str, _Instruction], one: _Instruction) -> int:
    """Bytes that a kernel reads and writes."""
    operands = [_size(inside[name].shape) if name in inside else 0 for name in one.operands]
    if one.kind in _READ_IN_PART:
        return 2 * _size(one.shape)
    if one.kind in _WRITTEN_IN_PART:
        return 2 * operands[_WRITTEN_IN_PART[one.kind]]
    if one.kind == "copy-start":
        return 2 * sum(operands)
    if one.kind == "custom-call":
        return sum(operands) + _size(re.sub(r"s8\[\d+\]", "", one.shape))  # s8: scratch space
    called = computations.get(_one(_CALLED, one.rest), {})
    if one.kind != "fusion" or not called:
        return sum(operands) + _size(one.shape)
    parameters = [x for x in called.values() if x.kind == "parameter"]
    return sum(_read(called, x) for x in parameters) + _written(called, one)


def _read(called: dict[str, _Instruction], parameter: _Instruction) -> int:
    """Bytes that a fused kernel reads of a parameter."""
    whole, part = _size(parameter.shape), 0
    for user in (one for one in called.values() if parameter.name in one.operands):
        first = user.operands[0] == parameter.name
        if first and user.kind in _READ_IN_PART:
            part += _size(user.shape)
        elif not (first and user.kind in _WRITTEN_IN_PART):
            return whole
    return min(whole, part)


def _written(called: dict[str, _Instruction], fusion: _Instruction) -> int:
    """Bytes that a fused kernel writes."""
    root = next((one for one in called.values() if one.is_root), None)
    if root is None:
        return _size(fusion.shape)
    outputs = [called[x] for x in root.operands if x in called] if root.kind == "tuple" else [root]
    total = 0
    for output in outputs:
        while output.kind == "bitcast" and output.operands[0] in called:
            output = called[output.operands[0]]
        written = output
        if output.kind in _WRITTEN_IN_PART:
            written = called.get(output.operands[_WRITTEN_IN_PART[output.kind]], output)
        total += _size(written.shape)
    return total


def _flops(computations: _Computations, inside: dict[str, _Instruction], one: _Instruction) -> int:
    """Floating-point operations of a kernel."""
    if one.kind == "fusion":
        called = computations.get(_one(_CALLED, one.rest), {})
        return sum(_flops(computations, called, x) for x in called.values())
    contracted = _CONTRACTED.search(one.rest)
    if contracted and one.operands and one.operands[0] in inside:
        _, _, dims = _arrays(inside[one.operands[0]].shape)[0]
        axes = [int(axis) for axis in re.findall(r"\d+", contracted[1])]
        _, count, _ = _arrays(one.shape)[0]
        return 2 * count * math.prod(dims[axis] for axis in axes)
    if one.kind in _MOVES:
        return 0
    made = one
    if one.kind in ("reduce", "reduce-window") and one.operands and one.operands[0] in inside:
        made = inside[one.operands[0]]
    floats = ("f", "bf")
    return sum(count for kind, count, _ in _arrays(made.shape) if kind.startswith(floats))


def _arrays(shape: str) -> list[tuple[str, int, tuple[int, ...]]]:
    """(element type, number of elements, dimensions) of each array of a shape."""
    found = []
    for match in _ARRAY.finditer(shape):
        dims = tuple(int(size) for size in match[3].split(",") if size)
        found.append((match[1], math.prod(dims), dims))
    return found


def _size(shape: str) -> int:
    """Bytes of a shape."""
    total = 0
    for kind, count, _ in _arrays(shape):
        bits = re.search(r"\d+", kind)
        total += count * max(1, int(bits[0]) // 8 if bits else kind == "pred")
    return total


def _parsed(text: str) -> tuple[_Computations, str]:
    """The instructions of each computation by name, and the name of the entry."""
    computations: _Computations = {}
    entry = name = ""
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            name = head[2]
            computations[name] = {}
            entry = name if head[1] else entry
        elif name and (found := _INSTRUCTION.match(line)):
            root, own, shape, kind, operands, rest = found.groups()
            names = tuple(_NAME.findall(operands))
            computations[name][own] = _Instruction(own, shape, kind, names, rest, bool(root))
    return computations, entry


def _one(pattern: re.Pattern[str], line: str) -> str:
    found = pattern.search(line)
    return found[1] if found else ""
