"""Every trial is written down, read again, and claimed by one process at a time."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.processes import Tune, start
from helpers.records import sizes
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.measure.method import Method
from tuner.measure.results import FINALS, Outcome
from tuner.space.sources import rendering
from tuner.tuning.ledger import claims, ledger
from tuner.tuning.ledger.open_study import OpenStudy
from tuner.tuning.ledger.patience import PatientStorage
from tuner.tuning.ledger.study import StudyKey
from tuner.tuning.ledger.trial import Trial

SPACE = catalog.load("sgemm/01_host_blocked")
CONFIG = dict(SPACE.default)
KEY = StudyKey(sizes(8), {}, "device", "signature", "toolchain")


def timed(time_ms: float) -> Trial:
    """A trial that took so long."""
    return Trial(CONFIG, Outcome(times=(time_ms,)), (time_ms,), 60.0)


def nth(lines: list[str], word: str, number: int) -> int:
    """Where a journal says `word` for the nth time."""
    return [i for i, line in enumerate(lines) if f'"{word}"' in line][number]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (lambda lines: [*lines[:-1], lines[-1][:20]], 5),  # it says that a trial is closed; what it is, came before
        (lambda lines: [*lines[:-2], lines[-2][:40]], 4),
        (lambda lines: [*lines[: (i := nth(lines, "measured", 0))], "garbage", *lines[i + 1 :]], 4),
        (lambda lines: [*lines[: (i := nth(lines, "params", 1))], *lines[i + 1 :]], 5),
        (lambda lines: [*lines[: (i := nth(lines, "measured", 0))], lines[i] + lines[i + 1], *lines[i + 2 :]], 4),
        (lambda lines: ["", *lines], 5),
        (lambda lines: lines[1:], 5),
        (lambda lines: lines, 5),
    ],
    ids=[
        "closing cut",
        "result cut",
        "garbage",
        "claim lost",
        "two lines in one",
        "empty line",
        "no study",
        "no last newline",
    ],
)
def test_a_damaged_ledger_loses_what_is_damaged_and_no_more(
    damage: Callable[[list[str]], list[str]], left: int, tmp_path: Path
) -> None:
    assert remembered() == 0
    (journal,) = (tmp_path / "state").rglob("*.log")
    damaged = damage(journal.read_text().splitlines())
    journal.write_text("\n".join(damaged))
    assert remembered() == left
    torn = journal.with_suffix(".torn")
    assert set(damaged) <= set((journal.read_text() + (torn.read_text() if torn.exists() else "")).splitlines())
    assert remembered() == 5


def remembered() -> int:
    """How many trials a ledger of five configurations knows; the others are measured."""
    space, key = catalog.load("sgemm/03_naive"), StudyKey(sizes(8), {}, "device", "signature", "toolchain")
    threads = space.parameters["block_size_x"][:5]
    with ledger.Ledger(space, key) as opened:
        count = len(opened.trials)
        for config in [{**space.default, "block_size_x": value} for value in threads]:
            if opened.known(config, 60.0) is None:
                assert opened.claim(config, 60.0)
                assert opened.begin(config)
                assert opened.finish(Trial(config, Outcome(times=(1.0, 2.0), clock_mhz=1980), (1.5,), 60.0))
        assert [trial.outcome.clock_mhz for trial in opened.trials] == [1980] * 5
    return count


@pytest.mark.slow
def test_a_run_goes_on_after_a_ledger_that_was_cut(tune: Tune, stage: Stage, tmp_path: Path) -> None:
    request = (stage(c_kernel("cut", MULTIPLY), "cut", "{a: [0, 1, 2, 3, 4]}"), "8", "--json", "--repeats", "1")
    assert tune(*request).status == 0
    (journal,) = (tmp_path / "state").rglob("*.log")
    lines = journal.read_text().splitlines()
    written = [number for number, line in enumerate(lines) if "measured" in json.loads(line).get("user_attr", ())]
    cut = written[4]  # the fifth; the finals may have measured some again
    journal.write_text("\n".join([*lines[:cut], lines[cut][:40]]))
    again = tune(*request)
    assert (again.status, again.json["evaluated"]) == (0, 5)
    assert "4 measured before" in again.err
    assert "5 measured before" in tune(*request).err


@pytest.mark.slow
def test_two_runs_of_one_problem_do_not_share_a_ledger(tune: Tune, stage: Stage) -> None:
    file = stage(c_kernel("busy", f"usleep(300000); {MULTIPLY}"), "busy", f"{{a: {list(range(40))}}}")
    first = start(str(file), "8", "--repeats", "1")
    assert first.stderr is not None
    while "1/40" not in (line := first.stderr.readline()):
        assert line, "it ended before there was anything to share"
    second = tune(file, "8", "--repeats", "1")
    first.kill()
    first.communicate()
    assert second.status == 2
    assert "being tuned" in second.err


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], ledger.Ledger]:
    """Opens a ledger that processes share; claims lapse at once."""
    monkeypatch.setattr(claims, "LEASE_SECONDS", 0.0)
    monkeypatch.setattr(claims, "HEARTBEAT_SECONDS", 3600.0)
    return partial(ledger.Ledger, SPACE, KEY, url=f"sqlite:///{tmp_path}/claims.db")


def close_lapsed(other: ledger.Ledger) -> None:
    """Have this ledger close the claims of others."""
    other.news()
    time.sleep(0.01)
    other.news()


@pytest.mark.slow
def test_a_claim_that_lapses_counts_against_a_configuration_only_if_the_device_had_it(
    shared: Callable[[], ledger.Ledger],
) -> None:
    for begun in (False, True):
        for _ in range(ledger.MOST_LOSSES):
            with shared() as lost, shared() as other:
                assert other.known(CONFIG, 60) is None
                assert lost.claim(CONFIG, 60)
                assert not begun or lost.begin(CONFIG)
                close_lapsed(other)
                assert not lost.begin(CONFIG), "it has been given to others"
        with shared() as again:
            known = again.known(CONFIG, 60)
            assert (known and known.outcome.failure) == ("repeat offender" if begun else None)


def test_a_claim_whose_device_was_lost_counts_against_the_configuration() -> None:
    with ledger.Ledger(SPACE, KEY) as own:
        for was_lost in (False, *[True] * ledger.MOST_LOSSES):
            assert own.known(CONFIG, 60) is None
            assert own.claim(CONFIG, 60)
            assert own.begin(CONFIG)
            own.release(CONFIG, was_lost)
        known = own.known(CONFIG, 60)
        assert known is not None
        assert known.outcome.failure == "repeat offender"


@pytest.mark.slow
def test_a_loss_that_the_storage_did_not_take_counts_once_its_claim_lapses(
    shared: Callable[[], ledger.Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        raise RequestError("the storage is away")

    for _ in range(ledger.MOST_LOSSES):
        with shared() as own, monkeypatch.context() as away:
            assert own.claim(CONFIG, 60)
            assert own.begin(CONFIG)
            away.setattr(OpenStudy, "note", refuse)
            with pytest.raises(RequestError):
                own.release(CONFIG, was_lost=True)
        with shared() as other:
            close_lapsed(other)
    with shared() as again:
        known = again.known(CONFIG, 60)
        assert (known and known.outcome.failure) == "repeat offender"


@pytest.mark.slow
def test_a_result_that_comes_after_its_claim_has_lapsed_leaves_the_configuration_to_others(
    shared: Callable[[], ledger.Ledger],
) -> None:
    with shared() as late, shared() as other:
        assert late.claim(CONFIG, 60.0)
        close_lapsed(other)
        assert not late.finish(timed(1e-3))
        assert late.trials == []
        assert late.known(CONFIG, 60.0) is None
        assert other.claim(CONFIG, 60.0)
        other.finish(timed(2e-3))
        late.news()
        assert late.trials == other.trials


def test_an_interrupt_right_after_a_trial_is_on_disk_does_not_hide_it_from_its_own_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(storage: PatientStorage, *arguments: object) -> None:
        storage.request(storage.inner.set_trial_state_values, *arguments)
        raise KeyboardInterrupt

    with ledger.Ledger(SPACE, KEY) as begun:
        assert begun.claim(CONFIG, 60.0)
        begun.finish(timed(1e-3))
        with monkeypatch.context() as patched:
            patched.setattr(PatientStorage, "set_trial_state_values", interrupted, raising=False)
            with pytest.raises(KeyboardInterrupt):
                begun.revise(Trial(CONFIG, Outcome(failure=FINALS, log="wrong result: by 1"), (), 60.0))
        assert [trial.outcome.rejection for trial in begun.trials] == ["by 1"]
    with ledger.Ledger(SPACE, KEY) as again:
        assert [trial.outcome.rejection for trial in again.trials] == ["by 1"]


def test_an_interrupt_while_a_lock_of_the_file_changes_hands_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna then fails to give back a lock that it does not have, and that error hides the interrupt."""
    interrupts = iter([True])

    def renamed(source: str, target: str, rename: Callable[..., None] = os.rename) -> None:
        if source.endswith(".lock") and next(interrupts, False):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", renamed)
    with pytest.raises(KeyboardInterrupt):
        ledger.Ledger(SPACE, KEY)
    with ledger.Ledger(SPACE, KEY) as again:
        assert again.trials == []


def test_a_trial_that_could_not_be_written_is_not_thought_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise RequestError("File too large")

    with ledger.Ledger(SPACE, KEY) as begun:
        assert begun.claim(CONFIG, 60.0)
        monkeypatch.setattr(PatientStorage, "set_trial_state_values", full, raising=False)
        with pytest.raises(RequestError, match="File too large"):
            begun.finish(timed(1e-3))
        assert begun.trials == []


@pytest.mark.slow
def test_trials_of_an_earlier_protocol_are_kept_and_not_used(tune: Tune, stage: Stage, host: Device) -> None:
    file = stage(c_kernel("earlier", MULTIPLY), "earlier", "{a: [0, 1]}")
    space = catalog.load(str(file))
    key = StudyKey(
        sizes(16),
        {"alpha": 1.0, "beta": 0.0},
        host.name,
        rendering.signature(space),
        host.toolchain,
        Method(repeats=1),
        1,
        conditions=host.conditions,
    )
    config = {"a": 0}
    with ledger.Ledger(space, key) as earlier:
        assert earlier.claim(config, 60.0)
        earlier.finish(Trial(config, Outcome(times=(1e-3,)), (1e-3,), 60.0))
    request = (file, "16", "--json", "--repeats", "1")
    first = tune(*request)
    assert "measured before" not in first.err
    assert "earlier trials were timed by an older protocol" in first.err
    again = tune(*request)
    assert "2 measured before" in again.err
    assert "another way" not in again.err
    with ledger.Ledger(space, key) as earlier:
        assert len(earlier.trials) == 1
