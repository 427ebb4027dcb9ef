"""When a search is given up: where all builds fail alike, or all results are wrong alike, and no value of a parameter
may be to blame."""

from __future__ import annotations

import pytest

from tuner.measure.results import Outcome
from tuner.search.pool import Pool
from tuner.search.search import Search
from tuner.space.argument import Argument
from tuner.tuning.crew.futility import Futility
from tuner.tuning.ledger.trial import Trial

PARAMETERS = {"a": [0, 1, 2, 3, 4, 5, 6], "b": [0, 1, 2, 3, 4, 5]}
POOL = Pool(PARAMETERS, [(a, b) for a in PARAMETERS["a"] for b in PARAMETERS["b"]])  # the last changes fastest
UNDECLARED = "In function:\nf.c:7:3: error: 'x' undeclared\n"
ASSERTION = 'f.c(7): error: static assertion failed with "too wide"'

# what fails with which message, or succeeds (None); whether there is a default, and after how many trials it is over
SEARCHES = {
    "alike, the default too": (lambda a, b: UNDECLARED, True, 20),
    "alike, and no default": (lambda a, b: UNDECLARED, False, 37),  # a = 6 has been tried
    "an assertion": (lambda a, b: ASSERTION, True, None),
    "an #error": (lambda a, b: "f.cl:3:2: error: #error directive: for others", True, None),
    "too little room": (lambda a, b: "ptxas error: uses too much shared data (0x9000 bytes)", True, None),
    "with the values in the message": (lambda a, b: f"f.c:7: error: {a * b} is too many", True, None),
    "on lines that differ": (lambda a, b: f"f.c:{7 + b}:3: error: 'x' undeclared", True, None),
    "with one success": (lambda a, b: None if a * b == 4 else UNDECLARED, True, None),
}


@pytest.mark.parametrize("what", SEARCHES)
def test_a_search_is_given_up_once_and_only_where_no_value_may_be_to_blame(what: str) -> None:
    message, has_default, over = SEARCHES[what]
    futility = Futility(POOL, {"a": 0, "b": 0} if has_default else {}, 2)
    told = []
    for count in range(1, len(POOL) + 1):
        config = POOL.config(count - 1)
        log = message(**config)
        outcome = Outcome(times=(1.0,)) if log is None else Outcome(failure="compile", log=log)
        if reason := futility.add(Trial(config, outcome)):
            told.append((count, reason))
    assert [count for count, _ in told] == ([] if over is None else [over])
    assert all("the same message: f.c:7:3: error: 'x' undeclared; fix" in reason for _, reason in told)


def test_a_search_that_may_be_hopeless_tries_next_what_no_configuration_had() -> None:
    futility, count = Futility(POOL, {}, 2), 0
    with Search("brute_force", POOL) as search:
        while (config := search.ask()) is not None:
            count += 1
            search.tell(config, None)
            if futility.add(Trial(config, Outcome(failure="compile", log=UNDECLARED))):
                break
            if (doubts := futility.doubts()) is not None:
                search.prefer(doubts)
    assert count == 23, "20 of a from 0 to 3, then 4, 5 and 6"


def test_what_does_not_fail_by_the_compiler_is_no_reason_to_give_up() -> None:
    futility = Futility(POOL, {"a": 0, "b": 0}, 2)
    for row in range(len(POOL)):
        reason = "resources" if row == 3 else "compile"
        assert futility.add(Trial(POOL.config(row), Outcome(failure=reason, log=UNDECLARED))) is None


@pytest.mark.parametrize(
    ("element", "over"),
    [("c[0] = 29, 49 expected", [20]), ("c[0] = {a}, 49 expected", []), ("c[{b}] = 0, 1 expected", [])],
)
def test_a_search_of_which_all_is_wrong_in_one_element_by_one_value_is_given_up(element: str, over: list[int]) -> None:
    futility, told = Futility(POOL, {"a": 0, "b": 0}, 2), []
    for count in range(1, len(POOL) + 1):
        config = POOL.config(count - 1)
        log = f"{element.format(**config)}; {count} of 256 elements are off by more than 0"
        if reason := futility.add(Trial(config, Outcome(failure="wrong result", log=log))):
            told.append(count)
            assert "all compute the same wrong value for the same element: c[0] = 29, 49 expected; 20 of 256" in reason
            assert "; fix the kernel or its reference, and run it again" in reason
    assert told == over


@pytest.mark.parametrize(
    ("element", "advice"),
    [
        (
            "c[7] = 84, 85 expected; 128 of 262144 elements are off by more than 0, by up to 19",
            "if rounding explains so few wrong elements, allow them by `tolerance: {wrong: 0.0007}`; else fix",
        ),
        (
            "c[0, 0] is not written, or NaN; 0 expected; 1020 of 65536 elements are off by more than 1e-06",
            "as those of a border, write `role: inout`, with `fill: zeros`, for c; else fix",
        ),
        (
            "c[0] is not written, or NaN; 5 expected; 20 of 65536 elements are off by more than 1e-06",
            "as those of a border, write `role: inout`, with a `fill:` that holds there what is expected, for c; else",
        ),
        ("derived[0] is not written, or NaN; 5 expected; 20 of 65536 elements are off by more than 1e-06", ""),
        ("c[0] = nan, -inf expected; 20 of 65536 elements are off by more than 1e-06", "give inputs a `fill:` with"),
        ("c[0] is not written, or NaN; nan expected; 1 of 9 elements are off by more than 1e-06", "`zeroed: each`"),
    ],
)
def test_what_explains_few_wrong_elements_is_named(element: str, advice: str) -> None:
    scratch = Argument("s", "float32", role="scratch", zeroed="never" if "zeroed" in advice else "each")
    arguments = [Argument("c", "float32", role="out"), scratch]
    futility, pool = Futility(POOL, {}, 2, arguments=arguments), [*POOL.configs()]
    (reason,) = filter(None, [futility.add(Trial(c, Outcome(failure="wrong result", log=element))) for c in pool])
    assert advice in reason
    assert ("role:" in reason) == ("role:" in advice)
