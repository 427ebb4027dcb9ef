"""Ties of the finals, and the rule that settles them."""

from __future__ import annotations

import functools
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import tuner
from helpers.kernels import MULTIPLY, Stage, c_kernel
from tuner import devices
from tuner.catalog import catalog
from tuner.devices.builds.figures import Figures
from tuner.measure.method import Objective
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.results import Final, Outcome
from tuner.measure.timing.clock import FINAL_SECONDS
from tuner.space import parsing
from tuner.space.config import Config
from tuner.space.instance import Instance
from tuner.space.scope import Scope
from tuner.space.sources.rendering import render
from tuner.store import verdicts
from tuner.store.verdicts import Interval
from tuner.tuning.finals import final_round, processes
from tuner.tuning.finals.code import Code
from tuner.tuning.finals.finalist import Finalist
from tuner.tuning.finals.processes import Processes
from tuner.tuning.finals.ties import TieRule, settle, standings
from tuner.tuning.ledger.trial import Trial

ROUNDS = 40


def finalist(v: int, times: tuple[float, ...], registers: int | None = None, bits: str = "") -> Finalist:
    figures = Figures(registers, None, None, None)
    outcome = Outcome(times=times, figures=figures, bits={"0": bits} if bits else {})
    return Finalist(Trial({"v": v}, outcome, (times[0],)), Final(times))


def other_code(one: Config, other: Config) -> bool:
    return False


def rounds(seed: int, *times: float, noise: float = 0.02, common: float = 0.3) -> list[tuple[float, ...]]:
    """Times of the same rounds: `common` noise slows all of a round down, `noise` each one by itself."""
    draw = random.Random(seed)
    machine = [1 + common * draw.random() for _ in range(ROUNDS)]
    return [tuple(time_ms * slow * (1 + noise * draw.gauss(0, 1)) for slow in machine) for time_ms in times]


def test_the_interval_of_a_median_holds_the_true_one_as_often_as_it_says() -> None:
    draw = random.Random(49)
    for count in (8, 11, 40):
        found = [verdicts.interval([draw.expovariate(1) for _ in range(count)]) for _ in range(2000)]
        held = sum(each.low <= 0.6931 <= each.high for each in found)
        assert held >= 0.985 * len(found)
    assert verdicts.interval([3.0, 1.0, 2.0]) == Interval(1.0, 2.0, 3.0)


def test_what_slows_a_round_down_for_all_cancels_out() -> None:
    one, other = rounds(1, 1.0, 1.03)
    assert verdicts.of_times(one).verdict(verdicts.of_times(other)), "their quartiles overlap"
    assert not verdicts.is_tied(verdicts.ratio(one, other), 1.0)
    alone = verdicts.ratio(one, other[:-1])
    assert verdicts.is_tied(alone, 1.0), "times of different rounds have nothing in common"


@pytest.mark.parametrize(("time_ms", "is_tied"), [(1.002, True), (1.1, False)])
def test_a_difference_that_may_be_another_process_s_is_a_tie(time_ms: float, is_tied: bool) -> None:
    one, other = rounds(2, 1.0, time_ms, noise=0.0001)
    assert verdicts.is_tied(verdicts.ratio(one, other), 1.0) == is_tied


def test_a_fifth_of_a_microsecond_is_a_tie_however_short_the_run() -> None:
    for micros, is_tied in ((3.15, True), (3.4, False)):
        one, other = rounds(2, 0.003, micros / 1000, noise=0.0001)
        assert verdicts.is_tied(verdicts.ratio(one, other), 0.003) == is_tied


def test_noise_hides_no_difference_above_a_tenth() -> None:
    for factor, is_tied in ((1.03, True), (1.2, False)):
        one, other = rounds(12, 1.0, factor, noise=0.3)
        found = verdicts.ratio(one, other)
        assert found.low < 1 < found.high
        assert (found.middle > 1.1) != is_tied, "what the draw shows"
        assert verdicts.is_tied(found, 1.0) == is_tied


def test_equal_code_is_tied_whatever_its_times() -> None:
    one, other, third = rounds(8, 1.0, 1.2, 1.3, noise=0.001)
    field = [finalist(2, one), finalist(1, other), finalist(0, third)]

    def is_same(one: Config, other: Config) -> bool:
        return {one["v"], other["v"]} <= {1, 2}

    settled = settle(field, TieRule(), ("time",), is_same)
    assert (settled.order[0].trial.config, settled.decided_by) == ({"v": 1}, "name")
    assert [tie.finalist.trial.config["v"] for tie in settled.ties] == [2, 1]


def test_ties_are_settled_by_the_record_then_the_default_the_class_registers_and_the_name() -> None:
    times = rounds(3, *[1.0] * 6, 1.5)
    about = [(5, 40, "a" * 12), (4, 40, "a" * 12), (3, 30, "b" * 12), (2, 32, "b" * 12), (1, 32, "b" * 12), (0, 32, "")]
    field = [finalist(v, own, registers, bits) for (v, registers, bits), own in zip(about, times, strict=False)]
    slow = finalist(9, times[-1], 1, "b" * 12)
    best_first = sorted([*field, slow], key=lambda each: each.final.time_ms)
    trials = [each.trial for each in best_first]

    def winner(rule: TieRule, of: list[Finalist] = best_first) -> tuple[object, str]:
        settled = settle(of, rule, ("time",), other_code)
        assert {tie.finalist.trial.config["v"] for tie in settled.ties} == {f.trial.config["v"] for f in of} - {9}
        assert sorted(f.trial.config["v"] for f in settled.order) == sorted(f.trial.config["v"] for f in of)
        return settled.order[0].trial.config["v"], settled.decided_by

    assert winner(TieRule.of({"v": 4}, {"v": 5}, trials)) == (4, "record")
    assert winner(TieRule.of({"v": 9}, {"v": 5}, trials)) == (5, "default"), "the record has lost"
    assert winner(TieRule.of(None, {"v": 9}, trials)) == (3, "registers"), "of the larger class"
    without = [each for each in best_first if each.trial.config["v"] != 3]
    assert winner(TieRule.of(None, None, trials), without) == (1, "name")
    alone = [each for each in best_first if each.trial.config["v"] in (2, 5)]
    assert winner(TieRule.of(None, None, trials), alone) == (2, "bit class")


def test_a_clear_winner_needs_no_rule() -> None:
    one, other = rounds(4, 1.0, 1.2)
    settled = settle([finalist(1, one), finalist(0, other)], TieRule({"v": 0}, {"v": 0}), ("time",), other_code)
    assert (settled.order[0].trial.config, settled.ties, settled.decided_by) == ({"v": 1}, [], "time")


def test_code_is_compared_as_the_machine_runs_it(stage: Stage) -> None:
    text = c_kernel("twin", "if (v == 2) C[0] = 1; if (v > 9) C[0] = v;")
    space = catalog.load(str(stage(text, "twin", "{v: [0, 1, 2]}")))
    device = devices.open_device("host")
    sizes = parsing.parse_size("8", space.operation)
    scope = Scope(sizes, space.operation.options, device.language, device.limits)
    worker = cast(Supervisor, SimpleNamespace(task=SimpleNamespace(space=space), scope=scope, device=device))
    compiler = devices.compiler_for(device.kind, device.architecture)
    assert not Code(worker).is_same({"v": 0}, {"v": 1}), "no build is known, and the texts differ"
    for v in (0, 1, 2):
        compiler.build(render(Instance(space, {"v": v}, scope))[0].source)
    assert Code(worker).is_same({"v": 0}, {"v": 1})
    assert not Code(worker).is_same({"v": 0}, {"v": 2})
    device.close()


def in_processes(*several: list[tuple[float, ...]]) -> list[Final]:
    """Finals whose times in each process are given for each of them."""
    return [functools.reduce(Final.and_later, map(Final, times)) for times in zip(*several, strict=True)]


def test_what_processes_differ_by_is_no_difference_but_gives_up_no_more_than_a_twentieth() -> None:
    """The second of three is 4 % slower in the rounds of all processes, the third one 8 %, and a fourth one 30 %."""

    def found(deviation: float) -> list[tuple[bool, bool]]:
        draw = [1 - deviation, 1 + deviation, 1, 1]
        finals = in_processes(*(rounds(7 + i, 1.0, 1.04 * d, 1.08, 1.3, noise=0.002) for i, d in enumerate(draw)))
        trials = [replace(finalist(3 - i, final.times), final=final) for i, final in enumerate(finals)]
        settled = settle(trials, TieRule(), ("time",), other_code)
        tied = [tie.finalist.trial.config["v"] for tie in settled.ties]
        assert len(tied) != 1
        assert settled.order[0].trial.config["v"] == (2 if 2 in tied else 3), "the third one has an earlier name"
        kept = settle(trials, TieRule({"v": 1}), ("time",), other_code).order[0].trial.config["v"]
        assert (kept == 1) == (1 in tied), (
            "but if it is the record, it stays until noise no longer hides that it is slow"
        )
        return [each[1:] for each in standings(finals)]

    fast, separate, slow = (True, True), (False, False), (True, False)
    assert found(0.0) == [fast, separate, separate, separate], "each process says the same"
    assert found(0.06) == [fast, fast, slow, separate], "another process may find any of the three the fastest"
    assert found(0.4) == [fast, fast, slow, separate], "noise hides no difference above a fifth"

    twice = in_processes(rounds(7, 1.0, 1.2, noise=0.002), rounds(8, 1.5, 1.8, noise=0.002))
    once = Final(twice[1].by_process[0])
    assert once.time_ms < twice[0].time_ms, "later processes were slower"
    assert [each.is_tied for each in standings([twice[0], once])] == [True, False]


@pytest.mark.parametrize("count", [4, 7])
def test_intervals_hold_the_ratio_and_the_time_in_a_further_process_19_times_of_20(count: int) -> None:
    draw, held = random.Random(count), Counter[str]()
    for _ in range(1000):
        further, *times = (1.1 + 0.05 * draw.gauss(0, 1) for _ in range(count + 1))
        fastest, other = in_processes(*([(1.0,), (time_ms,)] for time_ms in times))
        ratio = Processes.of([fastest, other]).standing(other).ratio
        found = {"ratio": ratio, "time": processes.interval(other)}
        held.update(name for name, (low, _, high) in found.items() if low <= further <= high)
    assert all(920 <= held[name] <= 980 for name in ("ratio", "time")), held


def test_processes_are_added_until_the_limit_of_a_tie_is_as_far_as_their_error() -> None:
    def is_settled(count: int, *second: float, is_record: bool = False) -> bool:
        draw = [second[i % len(second)] for i in range(count)]
        fastest, preferred = in_processes(*(rounds(i, 1.0, d, noise=0.002) for i, d in enumerate(draw)))
        return Processes.of([fastest, preferred]).is_settled([preferred, fastest], preferred if is_record else None)

    assert is_settled(3, 1.0, 1.01, 0.99), "it is surely tied"
    assert is_settled(3, 1.14, 1.15, 1.16), "it surely is not"
    assert not is_settled(4, 1.02, 1.10), "it may be either"
    assert is_settled(40, 1.0, 1.04), "the error of many is small"
    assert is_settled(8, 1.06, 1.14), "it is tied, but gives up too much"
    assert not is_settled(8, 1.06, 1.14, is_record=True), "a record that is tied stays"


def several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finals have three processes, where a user's have four. No load lengthens runs to the time of one that sleeps."""
    for name, value in (("MOST_PROCESSES", 3), ("FINAL_SECONDS", FINAL_SECONDS), ("OPEN", 20.0)):
        monkeypatch.setattr(final_round, name, value)


@pytest.mark.slow
def test_further_processes_time_what_the_earlier_ones_do_not_separate(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    several_processes(monkeypatch)
    log = tmp_path / "log"
    note = f'FILE *file = fopen("{log}", "a"); fprintf(file, "%d %d\\n", v, getppid()); fclose(file);'
    text = c_kernel("noting", f"{MULTIPLY}{note} if (v == 2) usleep(2000);", "#include <stdio.h>")
    for values, most in (("[0, 1, 2]", 3), ("[0, 2]", 1)):
        log.write_text("")
        tuned = tuner.tune(stage(text, "noting", f"{{v: {values}}}"), 16, device="host", results=tmp_path / values)
        processes = Counter(line.split()[0] for line in set(log.read_text().splitlines()))
        assert processes["0"] == processes.get("1", most) == most
        assert processes["2"] <= max(most - 1, 1), "in the first one, and if it was measured again, in the last one"
        assert tuned.record.config["v"] < 2
        assert [each["config"]["v"] for each in tuned.record.finalists][-1] == 2, "the slowest is the last"


@pytest.mark.slow
def test_what_fails_in_a_later_process_keeps_no_other_finalist_out(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two fastest are right in the first process alone. The next one is far slower, the default slower still."""
    several_processes(monkeypatch)
    first = tmp_path / "first"
    body = f"""
    FILE *file = fopen("{first}", "r");
    int process = getppid();
    if (file) fscanf(file, "%d", &process); else fprintf(file = fopen("{first}", "w"), "%d", process);
    fclose(file);
    if (v % 2 && process != getppid()) alpha = 0;
    if (v == 0) usleep(6000);
    if (v == 2) usleep(1500);
    {MULTIPLY}
    """
    text = c_kernel("late", body, "#include <stdio.h>")
    tuned = tuner.tune(stage(text, "late", "{v: [0, 1, 2, 3]}"), 16, device="host", results=tmp_path / "results")
    assert tuned.record.config == {"v": 2}
    assert tuned.record.default_ms > 2 * tuned.record.time_ms


def test_energies_and_sustained_times_are_not_settled_by_the_rule() -> None:
    one, other = rounds(5, 1.0, 1.0)
    field = [finalist(1, one), finalist(0, other)]
    cases: list[tuple[TieRule | None, Objective]] = [(TieRule({"v": 0}), "energy"), (None, "time")]
    for rule, objective in cases:
        settled = settle(field, rule, (objective,), other_code)
        assert (settled.order[0].trial.config, settled.decided_by) == ({"v": 1}, ""), "no time decided either"
        assert len(settled.ties) == 2


def test_the_rule_is_the_same_whatever_the_order_of_the_trials() -> None:
    times = rounds(6, *[1.0] * 8)
    field = [finalist(v, own, 32, "a" * 12) for v, own in enumerate(times)]
    orders = [random.Random(seed).sample(field, len(field)) for seed in range(20)]
    rules = [TieRule.of(None, None, [each.trial for each in order]) for order in orders]
    settled = [settle(order, rule, ("time",), other_code) for order, rule in zip(orders, rules, strict=True)]
    assert {each.order[0].trial.config["v"] for each in settled} == {0}
