"""Classes of configurations with equal bits, from digests by set of inputs."""

from __future__ import annotations

import pytest

from tuner.space.values import bit_classes
from tuner.space.values.bit_classes import VARIES

A, B, C = "a" * 12, "b" * 12, "c" * 12


def test_equal_bits_on_all_shared_sets_are_one_class() -> None:
    bits = {1: {"0": A, "1": B}, 2: {"0": A, "1": C}, 3: {"0": A, "1": C}, 4: {"0": B, "1": B}}
    assert bit_classes.classes(bits) == [[2, 3], [1], [4]]
    assert bit_classes.numbers([*bits.values()]) == [0, 1, 1, 2]


def test_what_was_verified_on_fewer_sets_is_in_the_largest_class_that_it_does_not_contradict() -> None:
    bits = {1: {"0": A}, 2: {"0": A, "1": B}, 3: {"0": A, "1": C}, 4: {"0": A, "1": C}, 5: {"0": B}}
    assert bit_classes.classes(bits) == [[1, 3, 4], [2], [5]]


def test_what_varies_or_is_unknown_is_in_no_class() -> None:
    bits = {1: {"0": A}, 2: {"0": VARIES}, 3: {}, 4: {"0": A, "1": VARIES}}
    assert bit_classes.classes(bits) == [[1]]
    assert bit_classes.numbers([*bits.values()]) == [0, None, None, None]
    assert bit_classes.are_same({"0": VARIES}, {"0": VARIES}) is False
    assert bit_classes.are_same({"0": A}, {"1": A}) is None
    assert bit_classes.are_same({"0": A, "1": B}, {"0": A}) is True


def test_measurements_that_contradict_each_other_mean_that_the_bits_vary() -> None:
    assert bit_classes.joined([{"0": A}, {"0": A, "1": B}, {}]) == {"0": A, "1": B}
    assert bit_classes.joined([{"0": A, "1": B}, {"0": C}]) == {"0": VARIES, "1": B}


def test_many_classes_of_one_are_found_quickly() -> None:
    bits = {number: {"0": f"{number:012x}", "1": f"{number:012x}"} for number in range(20_000)}
    assert len(bit_classes.classes(bits)) == 20_000


@pytest.mark.parametrize(
    "value", [{"0": "x" * 12}, {"0": A[1:]}, {0: A}, [A], {"0": 1}, {str(i): A for i in range(65)}]
)
def test_digests_in_files_are_checked(value: object) -> None:
    assert bit_classes.is_valid({"0": A, "2 alpha=1.3": VARIES})
    assert not bit_classes.is_valid(value)
