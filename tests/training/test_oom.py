"""What errors about memory say."""

from __future__ import annotations

import jax
import pytest

from jaxrl_hw.training.oom import is_out_of_memory, requested_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes.", 1 << 30),
        ("Out of memory allocating 1.50GiB.", 3 << 29),
        ("Error allocating 12.5 MB on device", 12_500_000),
        ("RESOURCE_EXHAUSTED: no figure", None),
    ],
)
def test_the_size_that_was_requested_is_read_from_the_message(text: str, size: int | None) -> None:
    assert requested_bytes(jax.errors.JaxRuntimeError(text)) == size


def test_errors_about_memory_are_recognized() -> None:
    xla = jax.errors.JaxRuntimeError
    assert is_out_of_memory(xla("RESOURCE_EXHAUSTED: ..."))
    assert is_out_of_memory(xla("Out of memory allocating 3 bytes"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(xla("INTERNAL: something else"))
    assert not is_out_of_memory(ValueError("out of memory"))
