"""Copies, checksums and elements of arrays, which threads take in parts."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from tuner.space.dtypes import DTYPES
from tuner.space.values import copies, drawing, threads
from tuner.space.values import elements as elements_module
from tuner.space.values.drawing import Draw, Drawn
from tuner.space.values.elements import Held
from tuner.space.values.rounded import Rounded


@pytest.mark.parametrize("shape", [(7, 5), (64,), (1,), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_threads_copy_in_parts_is_copied_whole(
    shape: tuple[int, ...], order: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "LARGE", 0)
    monkeypatch.setattr(copies, "PART", 3 * 8)
    array = np.array(np.random.default_rng(1).random(shape), order=order)
    copy = copies.copied(array)
    assert copy.flags.c_contiguous
    assert not np.shares_memory(copy, array)
    np.testing.assert_array_equal(copy, array)


@pytest.mark.parametrize("changed", [0, 11, 12, 34])
def test_a_checksum_by_threads_changes_with_any_element(changed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(1).random((7, 5))
    other = array.copy()
    other.reshape(-1)[changed] += 1
    monkeypatch.setattr(copies, "PART", 3 * 8)
    alone = copies.checksum(array)
    monkeypatch.setattr(threads, "LARGE", 0)
    assert copies.checksum(array) == copies.checksum(array.T.copy().T) == alone
    assert copies.checksum(other) != alone


@pytest.mark.filterwarnings("error")
def test_elements_that_threads_compute_are_those_that_one_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The greatest number overflows when it is rounded, which the caller ignores."""
    numbers = np.random.default_rng(1).random((7, 5), np.float32)
    numbers[3, 2] = np.finfo(np.float32).max
    drawn = Drawn(Draw("uniform", (-3, 7.3)), DTYPES["float32"], (7, 5), drawing.key(3, 1))
    for elements in (Rounded(Held(numbers), 7), drawn, Rounded(drawn, 10)):
        with np.errstate(all="ignore"):
            alone = elements.array(np.dtype(np.float64))
            with monkeypatch.context() as patch:
                patch.setattr(threads, "LARGE", 0)
                patch.setattr(elements_module, "BLOCK", 8)
                assert np.array_equal(elements.array(np.dtype(np.float64)), alone)
