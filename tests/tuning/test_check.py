"""`tune check`: records beside the source of a revision, or beside another store."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from helpers.own_kernels import scaled
from helpers.processes import Tune
from helpers.records import record
from tuner.catalog import catalog, known_files
from tuner.devices import Device
from tuner.errors import RequestError, WorkerDied
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.results import Final, Finals
from tuner.space.sources import rendering
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.store.verdicts import MOST_PROCESSES
from tuner.tuning.checking import contest
from tuner.tuning.checking.contest import Score, held
from tuner.tuning.checking.revision import NoRepository, Revision

KERNELS = ("same", "renamed", "slower", "wrong", "broken", "crashing", "retyped", "unread", "crowded")
SCRATCH = "    - {{name: {}, dtype: float32, shape: [n], role: scratch}}\n"
SLOW = "for (volatile int again = 0; again < 100 * n; again++);"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def stored(file: Path, host: Device, **changes: Any) -> Record:
    """A record of a kernel by `scaled`, in the store."""
    space = catalog.load(str(file))
    own = record(
        device=host.name,
        architecture=host.architecture,
        sizes={"n": 1000},
        options={},
        config={"unroll": 1},
        signature=rendering.signature(space),
        code=rendering.code(space),
        conditions=dict(host.conditions.values),
    )
    own = replace(own, **changes)
    Store.of(space).put([own])
    return own


@pytest.fixture
def repository(tmp_path: Path, host: Device, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with kernels that have records, as committed."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    (root / "tuner.toml").write_text('name = "kernels"\nspaces = ["kernels"]\n')
    for name in KERNELS:
        file = scaled(root / "kernels", name)
        if name == "crowded":
            names = [f"s{number}" for number in range(32)]
            edit(file, "  reference:", "".join(SCRATCH.format(name) for name in names) + "  reference:")
            edit(file.with_suffix(".c"), "int n) {", f"int n, {', '.join(f'float *{name}' for name in names)}) {{")
        stored(file, host)
    git(root, "add", "-A")
    git(root, "commit", "-qm", "kernels")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contests of a few rounds: what they compare here differs by far more than noise."""
    monkeypatch.setattr(contest, "FINAL_SECONDS", 0.5)
    monkeypatch.setattr(contest, "MAX_ROUNDS", 12)


def edit(file: Path, text: str, becomes: str) -> None:
    content = file.read_text()
    assert text in content
    file.write_text(content.replace(text, becomes))


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_check_says_of_each_record_what_became_of_it(
    repository: Path, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = repository / "kernels"
    edit(folder / "renamed.c", "j++", "j += 1")
    edit(folder / "slower.c", "int n) {", f"int n) {{ {SLOW}")
    edit(folder / "wrong.c", "2 * x[j]", "3 * x[j]")
    edit(folder / "broken.c", "x[j]", "there_is_no_such_name[j]")
    edit(folder / "crashing.c", "int n) {", "int n) { *(volatile int *)8 = 1;")
    edit(folder / "retyped.yaml", "{name: x, dtype: float32", "{name: x, dtype: float64")
    edit(folder / "retyped.c", "const float", "const double")
    edit(folder / "unread.yaml", "title:", "titel:")
    scaled(folder, "crowded")
    junit, summary = tmp_path / "check.xml", tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    done = tune("check", "--junit", junit, "--json")
    found = {each["kernel"].partition("/")[2]: each for each in done.json["checks"]}
    assert {name: each["status"] for name, each in found.items()} == {
        "same": "unchanged",
        "renamed": "unchanged",
        "slower": "slower",
        "wrong": "wrong",
        "broken": "broken",
        "crashing": "broken",
        "retyped": "not compared",
        "unread": "broken",
        "crowded": "not compared",
    }, done.err
    assert done.status == 1
    assert {name for name, each in found.items() if each["has_failed"]} == {
        "slower", "wrong", "broken", "crashing", "unread"
    }  # fmt: skip
    assert found["slower"]["ratio"]["low"] > 1.05
    assert found["slower"]["time_ms"] > found["slower"]["earlier_ms"]
    assert found["same"]["reason"] == "the same source and configuration"
    assert found["renamed"]["reason"] == "the same code"
    assert "y[0] = " in found["wrong"]["reason"]
    assert "there_is_no_such_name" in found["broken"]["reason"]
    assert "SIGSEGV" in found["crashing"]["reason"]
    assert "its arrays were others" in found["retyped"]["reason"]
    assert "titel" in found["unread"]["reason"]
    assert "it has too many scratch arrays beside" in found["crowded"]["reason"]
    assert done.json["against"].startswith("HEAD (")
    (suite,) = ElementTree.parse(junit).getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "9", "failures": "2", "errors": "3", "skipped": "2"
    }  # fmt: skip
    (failure,) = suite.findall("testcase[@classname='kernels/slower']/failure")
    assert failure.get("type") == "slower"
    text = summary.read_text()
    assert "failed" in text.splitlines()[0]
    assert text.count("\n| kernels/") == len(KERNELS)
    assert "| **slower** |" in text
    wrong = tune("run", folder / "wrong.yaml", "--device", "host")
    assert "failed verification" in wrong.err, "look-ups know of it"
    assert not git(repository, "status", "--porcelain", "--ignored").replace(" M kernels/", "").count("?")


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_another_store_is_compared_by_its_configurations(
    tmp_path: Path, host: Device, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = scaled(tmp_path / "kernels", "two")
    edit(file.with_suffix(".c"), "int n) {", f"int n) {{ if (unroll == 2) {SLOW}")
    own = stored(file, host)
    name = f"kernels/{file.stem}.jsonl"
    shutil.copytree(os.environ["TUNER_RESULTS"], tmp_path / "other")
    same = tune("check", file, "--against", "other", "--json")
    (check,) = same.json["checks"]
    assert (check["status"], same.status) == ("unchanged", 0)
    stored(file, host, config={"unroll": 2})
    lost = tune("check", file, "--against", "other", "--device", "host", "--summary", tmp_path / "a.md")
    assert lost.status == 1, lost.err
    assert lost.out.startswith("FAILED: kernels/two at n=1000: slower, ")
    assert "unroll=2 in place of unroll=1" in lost.out
    assert "1 record: 1 slower; 1 above the allowed 1.05 x" in lost.out
    allowed = tune("check", file, "--against", "other", "--fail-above", "1000", "--seconds", "1")
    assert allowed.status == 0, allowed.out
    (tmp_path / "other" / name).write_text("")
    alone = tune("check", file, "--against", "other")
    assert (alone.status, own.time_ms) == (0, 1.0)
    assert "not compared: store other has no valid configuration" in alone.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--against", "no-such"], "--against 'no-such': neither a folder nor a revision of"),
        (["--against=--help"], "--against '--help': neither a folder nor a revision of"),
        (["--against", ""], "--against '': empty"),
        (["--fail-above", "0.9"], "--fail-above '0.9': write a number from 1 to 1000, such as 1.05 for 5 %"),
        (["--seconds", "nan"], "--seconds 'nan': write a number of seconds from 1 to 3600"),
        (["--device", "nonsense"], "device 'nonsense': there is no such device"),
        (["--device", "opencl"], "the store: no record to check on opencl; records that are not checked: 9 of "),
        (["--results", "nowhere"], "--results nowhere: there is no such folder"),
        (["--junit", "nowhere/check.xml"], "--junit nowhere/check.xml: there is no folder nowhere"),
        (["--junit", "kernels"], "--junit kernels: cannot be written: Is a directory"),
        (["kernels/nowhere.yaml"], "kernel 'kernels/nowhere.yaml': there is no such file"),
        (["nothing*"], "kernel 'nothing*': the store has no record of such a kernel"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_a_wrong_request_is_one_message(arguments: list[str], says: str, tune: Tune) -> None:
    done = tune("check", *arguments)
    assert done.status == 2, done.out
    assert done.err.splitlines()[-1].startswith(f"error: {says}"), done.err


def test_a_check_that_checks_nothing_fails(repository: Path, tune: Tune) -> None:
    shutil.rmtree(repository / "kernels")
    done = tune("check")
    assert done.status == 2
    assert done.out.count("there are records of it, but its file is not known") == len(KERNELS)
    assert done.err.splitlines()[-1].startswith("error: nothing was checked")


def test_records_of_other_devices_are_counted(repository: Path, host: Device, tune: Tune) -> None:
    file = repository / "kernels/same.yaml"
    stored(file, host, device="another machine")
    stored(file, host, objective="energy", energy_mj=1.0, energy_spread=0.1)
    done = tune("check", file)
    assert done.status == 0
    assert "records that are not checked: 1 of another machine, 1 tuned for energy" in done.err


def test_in_a_clone_a_name_means_its_own_file(
    repository: Path, tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(repository), str(clone))
    edit(clone / "kernels/same.yaml", "title:", "titel:")
    for root in (repository, clone):
        known_files.add(root / "kernels/same.yaml", "kernels/same")  # as tuning does
    statuses = {}
    for root in (repository, clone):
        monkeypatch.chdir(root)
        (each,) = tune("check", "same", "--json").json["checks"]
        statuses[root] = each["status"]
    assert statuses == {repository: "unchanged", clone: "broken"}
    monkeypatch.chdir(tmp_path)
    assert "write the path of one" in tune("show", "kernels/same").err, "elsewhere it means neither"


def test_a_revision_leaves_the_repository_alone(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = repository / "kernels/same.c"
    file.write_text("changed")
    (repository / "not added").write_text("")
    git(repository, "add", "kernels")
    before = git(repository, "status", "--porcelain")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))  # as in a hook of another repository
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / "index"))
    with Revision("HEAD") as revision:
        tree = revision.tree(file)
        assert "scale(" in tree.old(file).read_text()
        assert tree is revision.tree(repository / "kernels/slower.yaml")
        assert not tree.old(repository / "not added").exists()
        assert tree.has(repository / "results")
        assert not tree.has(other)
        folder = tree.folder
        with pytest.raises(NoRepository, match="is in no Git repository"):
            revision.tree(tmp_path / "nothing")
    assert not folder.exists()
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert git(repository, "status", "--porcelain") == before
    with Revision("HEAD~7") as revision, pytest.raises(RequestError, match="neither a folder nor a revision"):
        revision.tree(file)


def test_the_kernels_of_a_submodule_belong_to_its_own_repository(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "inner")
    git(outer, "commit", "-qm", "a submodule")
    (outer / "own.c").write_text("")
    with Revision("HEAD") as revision:
        assert revision.tree(outer / "inner/kernels/same.c").root == outer / "inner"
        tree = revision.tree(outer / "own.c")
        assert (tree.folder / "inner/kernels/same.c").exists(), "an include may lie there"


class Simulated:
    """Looks at a configuration that takes `ratio` times as long. In each process, it takes one of `biases` more."""

    def __init__(self, seed: int, ratio: float, noise: float, biases: tuple[float, ...]) -> None:
        self._draw, self._ratio, self._noise, self._biases = random.Random(seed), ratio, noise, [*biases]

    def look(self, seconds: float, rounds: int, with_library: bool) -> Finals:
        busy = [1 + self._draw.expovariate(4) for _ in range(rounds)]  # slows both down in the same round
        one, other = ([each * (1 + self._noise * self._draw.gauss(0, 1)) for each in busy] for _ in range(2))
        factor = self._ratio * self._biases[0]
        return Finals([Final(tuple(factor * each for each in one)), Final(tuple(other))])

    def restart(self) -> None:
        del self._biases[0]


def contests(
    ratio: float, noise: float, allowed: float, count: int, biases: tuple[float, ...] = (1.0, 1.0)
) -> list[Score]:
    simulated = (Simulated(seed, ratio, noise, biases) for seed in range(count))
    return [held(each.look, each.restart, allowed) for each in simulated]


def contests_on_a_processor(ratio: float, allowed: float, count: int, deviation: float) -> list[Score]:
    """Scores of contests in which ratios differ between processes, and between rounds, by this standard deviation."""
    draw, scores = random.Random(0), []
    for seed in range(count):
        biases = tuple(draw.gauss(1, deviation) for _ in range(MOST_PROCESSES))
        simulated = Simulated(seed, ratio, deviation, biases)
        scores.append(held(simulated.look, simulated.restart, allowed, on_processor=True))
    return scores


def test_a_contest_finds_what_is_planted_and_nothing_else() -> None:
    found = contests(1.03, 0.01, 1.01, 50)
    assert all(score.verdict == "slower" and score.is_loss for score in found)
    assert all(score.ratio and score.ratio.low < 1.03 < score.ratio.high for score in found[:1])
    assert not any(score.is_loss for score in contests(1.03, 0.01, 1.05, 50))
    equal = contests(1.0, 0.1, 1.01, 50)
    assert not [score for score in equal if score.verdict == "slower"]
    assert {score.verdict for score in contests(0.9, 0.05, 1.05, 20)} == {"faster"}


@pytest.mark.parametrize("bias", [0.9, 1.1])
def test_what_one_process_alone_shows_is_no_difference(bias: float) -> None:
    for score in contests(1.0, 0.01, 1.05, 20, biases=(bias, 1.0)):
        assert not score.is_loss
        assert score.verdict not in ("slower", "faster")


def test_on_a_processor_a_difference_must_exceed_those_between_processes() -> None:
    equal = contests_on_a_processor(1.0, 1.03, 60, deviation=0.02)
    assert not any(score.is_loss for score in equal)
    assert sum(score.verdict in ("slower", "faster") for score in equal) <= 1
    assert sum(score.ratio.low <= 1 <= score.ratio.high for score in equal if score.ratio) >= 56
    assert all(score.is_loss for score in contests_on_a_processor(1.1, 1.03, 20, deviation=0.01))
    assert {score.verdict for score in contests_on_a_processor(1.0, 1.03, 20, deviation=0.0005)} == {"as fast"}


def test_noise_takes_more_rounds_up_to_a_most() -> None:
    rounds = [score.rounds for score in contests(1.0, 0.3, 1.01, 10)]
    assert max(rounds) <= 50 * (1 + 2 + 4 + 8), "60 s of 3, 6, 12, 24"
    assert max(rounds) > 50
    assert {score.rounds for score in contests(1.0, 0.001, 1.01, 5)} == {50}


def test_seconds_limit_what_runs_take_also_where_the_fewest_rounds_take_longer_than_planned() -> None:
    def look(seconds: float, rounds: int, with_library: bool) -> Finals:
        ratio = next(ratios)  # differs so much between processes that the verdict stays uncertain
        return Finals([Final((2000.0 * ratio,) * 5), Final((2000.0,) * 5)])  # ms, of five rounds: 20 s

    ratios = cycle([0.9, 1.1])
    assert held(look, lambda: None, 1.05, 121, on_processor=True).rounds == 7 * 5
    assert held(look, lambda: None, 1.05, 1, on_processor=True).rounds == 4 * 5, "the fewest processes"


def test_a_failure_ends_a_contest() -> None:
    finals = Finals([Final(failure="wrong result: y[0]"), Final((1.0,))])
    score = held(lambda *_: finals, lambda: None, 1.05)
    assert score == Score(failed=("wrong result: y[0]", None))


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_what_does_not_end_beside_the_other_is_measured_by_itself(
    repository: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    edit(repository / "kernels/slower.c", "int n) {", f"int n) {{ {SLOW}")
    whole = Supervisor.finals

    def finals(worker: Supervisor, configs: Any, *rest: Any, **named: Any) -> Finals:
        if configs and named["rivals"] is not None:
            raise WorkerDied("not finished after 360 s", "timeout")
        return whole(worker, configs, *rest, **named)

    monkeypatch.setattr(Supervisor, "finals", finals)
    done = tune("check", "kernels/slower.yaml")
    assert done.status == 1, done.err
    assert "slower at n=1000: slower, " in done.out
    assert "measured one after the other, because together they failed: timeout" in done.out
