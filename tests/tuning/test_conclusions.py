"""What the finals tell besides the best: ties, and why a time differs from that of the search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from helpers.own_kernels import scaled
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.devices import DeviceInfo
from tuner.measure.results import Final, Finals, Outcome
from tuner.space.scope import Limits
from tuner.store.store import Store
from tuner.tuning.finals import comparison, conclusions, summary
from tuner.tuning.finals.finalist import Finalist
from tuner.tuning.finals.selection import Selection
from tuner.tuning.finals.ties import of_times
from tuner.tuning.ledger.trial import Trial

GPU = DeviceInfo("cuda:0", "cuda", "cuda", "A GPU", "sm_90a", "NVRTC", 1 << 30, Limits())
CPU = DeviceInfo("host:0", "host", "c", "A CPU", "x86_64", "cc", 1 << 30, Limits(), on_processor=True)
SLOW = Finals(clock_mhz=1200.0, throttled=["power"])


def around(time_ms: float, spread: float = 0.001, first: int = 0) -> tuple[float, ...]:
    """Nine times about `time_ms` whose middle half is as wide as `spread` says. `first` turns their order."""
    steps = [step * 4 % 9 - 4 for step in range(first, first + 9)]
    return tuple(time_ms * (1 + spread * step / 5) for step in steps)


def selection(*times: tuple[float, ...], spread: float = 0.001, finals: Finals | None = None) -> Selection:
    """Finalists v=0, v=1 and so on, best first, each with its time in ms in the search and in the finals, and when it
    was measured once more as in the search, if it was."""

    def trial(v: int, time_ms: float) -> Trial:
        return Trial({"v": v}, Outcome(times=around(time_ms, spread)), (time_ms,))

    finalists = [
        Finalist(trial(v, again[0] if again else before), Final(around(after, spread, v)), trial(v, before))
        for v, (before, after, *again) in enumerate(times)
    ]
    ties = of_times(finalists, lambda one, other: False)
    return Selection(finalists, finals or Finals(), ties=ties)


def test_nothing_is_said_of_finals_that_agree_with_the_search_and_have_a_clear_winner() -> None:
    clear = selection((1.0, 1.01), (1.2, 1.21))
    assert conclusions.ties(clear) == []
    assert list(conclusions.of(clear, GPU)) == []
    assert list(conclusions.of(Selection([], Finals()), GPU)) == []
    doubtful = selection((1.0, 1.3), spread=0.6)  # that its times spread is said once, as a doubt about the record
    assert list(conclusions.of(doubtful, GPU)) == []


@pytest.mark.parametrize(("spread", "gain"), [(0.01, 20.0), (0.6, 2.0)])
def test_the_search_knows_shorter_times_than_noisy_finals(spread: float, gain: float) -> None:
    best, default = selection((1.0, 1.0), (2.0, 20.0), spread=spread).finalists
    assert comparison.least_gain(best, default) == pytest.approx(gain, rel=0.01)


def test_what_lies_within_the_spread_is_a_tie_and_named() -> None:
    tied = selection((1.0, 1.0), (1.004, 1.004), (1.2, 1.2), spread=0.01)
    assert [finalist.trial.config for finalist in conclusions.ties(tied)] == [{"v": 1}]
    (said,) = conclusions.of(tied, GPU)
    assert said == "a tie: 1 other time (+0.4%) is too close to the best's (spread 1.0%)"


def test_differences_that_matter_and_overlap_are_too_noisy_to_tell() -> None:
    many = selection(*((1.0 + v / 100, 1.0 + v / 100) for v in range(7)), spread=0.1)
    (said,) = conclusions.of(many, GPU)
    assert said == (
        "too noisy to tell which is the fastest: 6 other times (+1.0% to +6.0%) are too close to the best's "
        "(spread 10.0%)"
    )


def test_a_time_that_is_hardly_more_than_a_launch_takes_says_little_of_the_kernel() -> None:
    assert list(conclusions.of(selection((0.01, 0.01), finals=Finals(launch_ms=0.002)), GPU)) == []
    (said,) = conclusions.of(selection((0.003, 0.003), finals=Finals(launch_ms=0.002)), GPU)
    assert said == (
        "at this size much of a time is launch overhead: the best takes 0.003 ms, a kernel that does nothing 0.002 ms; "
        "tune at a larger size"
    )


def test_a_best_by_rule_that_is_slower_than_a_tie_is_no_tie_in_words() -> None:
    found = selection((1.03, 1.03), (1.0, 1.0), spread=0.1)
    (said,) = conclusions.of(found, GPU)
    assert said.startswith("too noisy to tell which is the fastest: ")
    assert "1 other time (-2.9%) is" in said


@pytest.mark.slow
def test_tuning_at_a_size_that_is_too_small_says_so(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    errs = (tune(file, "1", "--fresh").err for _ in range(5))  # on a busy processor, a time may exceed the overhead
    assert any("much of a time is launch overhead" in err for err in errs)


@pytest.mark.slow
def test_a_kernel_whose_runs_differ_by_themselves_is_noise_without_a_culprit_and_takes_no_steady_records_place(
    tune: Tune, tmp_path: Path
) -> None:
    file = scaled(tmp_path, "fitful")
    (tmp_path / "fitful.c").write_text(
        "#include <unistd.h>\nvoid scale(float *y, const float *x, int n) {\n"
        " static unsigned s; s = s * 1664525u + 1013904223u; usleep((s >> 16) % 8000);\n"
        " for (int i = 0; i < n; i++) y[i] = 2 * x[i];\n}\n"
    )
    file.write_text(file.read_text().replace("unroll: [1, 2]", "unroll: [1]"))
    done = tune(file, "--results", tmp_path, "--json")
    assert done.status == 0, done.err
    (doubt,) = (text for text in done.json["warnings"] if "the times of the best spread by" in text)
    assert "run the same command again when nothing else runs: a spread that remains is the kernel's" in doubt
    (noisy,) = Store.of(catalog.load(str(file)), tmp_path).records
    steady = replace(noisy, spread=0.1)
    Store.of(catalog.load(str(file)), tmp_path).put([steady])
    again = tune(file, "--results", tmp_path)
    assert "the store already has a better record and keeps it:\nbest: unroll=1\n" in again.out
    assert Store.of(catalog.load(str(file)), tmp_path).records == [steady]


@pytest.mark.parametrize(
    ("found", "device", "reason"),
    [
        (
            selection((1.0, 1.5), finals=Finals(clock_mhz=1200.0, throttled=["power"])),
            GPU,
            "clocks: the GPU ran at 1200 MHz, throttled by power; measured once more as in the search, it took 1 ms",
        ),
        (selection((1.0, 1.1), spread=0.5), GPU, "noise: its times spread by 50%"),
        (
            selection((1.0, 1.2, 1.2), (1.5, 1.5)),
            GPU,
            "measured once more as in the search, it took 1.2 ms, as in the finals: the search's time was wrong, and",
        ),
        (
            selection((1.0, 1.2, 1.0), (1.5, 1.5)),
            GPU,
            "measured once more as in the search, it took 1 ms, as before: the finals' inputs are more work for it, or",
        ),
        (
            selection((1.0, 0.8, 0.9), (1.5, 1.5)),
            GPU,
            "measured once more as in the search, it took 0.9 ms, which is neither: its times vary from run to run",
        ),
        (selection((1.0, 1.5), (1.2, 1.8)), GPU, "as before: clocks or caches: all finalists were slower"),
        (selection((1.5, 1.0), (1.8, 1.2)), GPU, "as before: clocks: all finalists were faster"),
        (
            selection((1.0, 1.5), (1.2, 1.8)),
            CPU,
            "as before: load or clocks: all finalists were slower, so either other programs used more",
        ),
        (
            selection((1.5, 1.0), (1.8, 1.2)),
            CPU,
            "as before: load or clocks: all finalists were faster, so either other programs used less",
        ),
    ],
    ids=["throttled", "noise", "wrong before", "other inputs", "vary", "caches", "clocks", "busier", "quieter"],
)
def test_a_time_that_differs_from_the_search_is_explained(found: Selection, device: DeviceInfo, reason: str) -> None:
    said = next(conclusions.of(found, device))
    assert said.startswith(f"the best took {found.finalists[0].searched.time_ms:.4g} ms in the search, ")
    assert reason in said


def test_the_searchs_fastest_is_named_where_the_best_is_another_and_took_as_long_as_before() -> None:
    said = next(conclusions.of(selection((1.2, 1.2), (1.0, 1.4)), GPU))
    assert said.startswith("the search's fastest, v=1, took 1 ms in the search, 1.4 ms in the finals (+40%): measured")


def test_a_best_that_was_not_the_searchs_fastest_has_its_own_two_times_told_and_those_of_the_other() -> None:
    """As on a busy CPU: the search showed 0.1278 ms, the run ended with 0.09214 ms, of another configuration."""
    said = next(conclusions.of(selection((0.2011, 0.09214), (0.1278, 0.1036), (0.13, 0.15)), CPU))
    assert said.startswith("the best took 0.2011 ms in the search, 0.09214 ms in the finals (-54%): measured once more")
    assert said.endswith("; the search had ranked v=1 first: 0.1278 ms there, 0.1036 ms in the finals")
    first, second = conclusions.of(selection((1.0, 1.3), (0.9, 1.302)), GPU)
    assert ("had ranked" in first, second.startswith("a tie: 1 other time")) == (False, True)
    alike = next(conclusions.of(selection((0.2011, 0.09214), (0.1278, 0.1036)), CPU))
    assert "as before: load or clocks: all finalists were faster" in alike
    assert alike.endswith("0.1036 ms in the finals")


def test_a_slow_python_function_of_derive_is_named(tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    file.write_text(file.read_text().replace("reference:", "derive: {total: {python: 'sums.py:total'}}\n  reference:"))
    (tmp_path / "sums.py").write_text("def total(y):\n    return [sum(y)]\n")
    space = catalog.load(str(file))
    trials = [Trial({}, Outcome(times=(1.0, 1.1, 0.9), seconds={"measure": seconds})) for seconds in (6.0, 6.0, 0.1)]
    said = summary.slow_derivation(space, trials)
    assert said.startswith("about 2 s pass after each timed run, while sums.py:total of `derive:` runs: a budget ends")
    assert summary.slow_derivation(space, trials[2:]) == summary.slow_derivation(space, []) == ""
