"""Copies and checksums of arrays."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from tuner.space.values import copies


@pytest.mark.parametrize("shape", [(7, 5), (64,), (1,), (3, 0)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_threads_copy_in_parts_is_copied_whole(
    shape: tuple[int, ...], order: Literal["C", "F"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "LARGE", 0)
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
    monkeypatch.setattr(copies, "LARGE", 0)
    assert copies.checksum(array) == copies.checksum(array.T.copy().T) == alone
    assert copies.checksum(other) != alone
