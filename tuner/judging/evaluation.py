"""Evaluate candidates: a judge in a process of its own gives one verdict for each."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from pathlib import Path
from typing import Any

from tuner import devices
from tuner.catalog import catalog
from tuner.classes import dataclass
from tuner.errors import EnvironmentTrouble, OptionError, RequestError, WorkerDied
from tuner.judging import candidate, sanitizer
from tuner.judging.candidate import CandidateText
from tuner.judging.verdict import CandidateVerdict
from tuner.measure.answers import function_objects
from tuner.measure.method import MOST_COMPARED_RUNS, TIMEOUT, check_timeout
from tuner.measure.process.channel import Process
from tuner.session import checks
from tuner.session.search import Kernel, loaded
from tuner.space import launch_form, snapshot
from tuner.space.chosen import Chosen
from tuner.space.model import Space
from tuner.space.parsing import Size
from tuner.version import VERSION

JUDGE, BEFOREHAND = "tuner.judging.judge", ["tuner.measure.benchmark"]
PATIENCE_SECONDS = 1800.0  # without news of a judge
FORMAT = "tuner-evaluation-1"  # of receipts
GROUP = 8  # candidates that are timed in the same rounds
HIDDEN, ROUNDS = 3, 11  # sizes that candidates are not told, and timed runs at each that they may know
MOST_SEED = 2**32 - 1
TOLD = ("timeout", "hidden", "rounds", "verify", "tune", "sanitize")  # what a judge is told as it is asked
MOST_TRIED, MOST_HIDDEN, LEAST_ROUNDS, MOST_ROUNDS = 10_000, 100, 5, 1000


@dataclass(frozen=True)
class Request:
    """What is asked of a judge. `sizes` are as for `tuner.load`; empty for the operation's default size."""

    candidates: Sequence[Path]
    against: str | Space
    sizes: Sequence[Any] = ()
    device: str | None = None
    options: Mapping[str, float] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    tune: int = 0
    hidden: int = HIDDEN
    rounds: int = ROUNDS
    verify: int | None = None
    timeout: float = TIMEOUT
    sanitize: bool = False
    seed: int | None = None


@dataclass(frozen=True)
class Verdicts:
    """The verdicts, in the order of the candidates, and the receipt, from which they can be made again."""

    verdicts: list[CandidateVerdict]
    receipt: dict[str, Any]

    @property
    def are_accepted(self) -> bool:
        """Whether no candidate is refused."""
        return all(verdict.is_accepted for verdict in self.verdicts)


def evaluate(
    candidates: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    against: Kernel,
    sizes: Size | Sequence[Size] | None = None,
    *,
    device: str | None = None,
    options: Mapping[str, float] | None = None,
    types: Mapping[str, str] | None = None,
    tune: int | None = None,
    sanitize: bool = False,
    hidden: int = HIDDEN,
    rounds: int = ROUNDS,
    verify: int | None = None,
    timeout: float = TIMEOUT,
    seed: int | None = None,
    noted: Callable[[str], None] = lambda _: None,
) -> Verdicts:
    """Judge kernels that somebody else wrote, as `tune evaluate` does: one verdict for each.

    Args:
        candidates: The file of a kernel's text (.cu, .cl or .c, as the space takes it), or several.
        against: The space that says what is computed: a `tuner.Space`, a kernel's name, or the path of a space file.
        sizes: A size as for `tuner.load`, or a list of them. Not needed if the operation has a default for every size.
        device: As for `tuner.tune`; several share the candidates.
        options, types: As for `tuner.load`.
        tune: Try so many configurations of each candidate, and judge the fastest.
        sanitize: Also run each candidate with compute-sanitizer, on CUDA.
        hidden: How many sizes candidates are not told, at which they must be right.
        rounds: How many runs are timed at each size.
        verify: How many runs are compared after those; by default 228, or as many as fit in 2 s.
        timeout: Seconds for a launch; a build may take at least 60.
        seed: Of the hidden sizes and of all inputs; drawn by default. Nobody who writes candidates may know it.
        noted: Called with messages.

    Returns Verdicts. Raises RequestError for an invalid request, SpaceError if the space cannot judge, DeviceError
    if no device is usable, and EnvironmentTrouble if a fault of the machine persists.

    Example::

        from pathlib import Path

        import tuner

        Path("mine.c").write_text("void sgemm_host_blocked(float *C) { C[0] = 0; }")
        judged = tuner.evaluate("mine.c", "sgemm/01_host_blocked", 48, device="host", rounds=5)
        for verdict in judged.verdicts:
            print(verdict.candidate, verdict.verdict, verdict.codes)
    """
    checks.words(device=device)
    checks.named_values(options=options, types=types)
    several = [candidates] if isinstance(candidates, str | os.PathLike) else [*candidates]
    request = Request(
        [Path(each) for each in several],
        loaded(against),
        _several_sizes(sizes),
        device=device,
        options=options or {},
        types=types or {},
        tune=0 if tune is None else checks.whole("tune", tune, 1, MOST_TRIED),
        hidden=checks.whole("hidden", hidden, 0, MOST_HIDDEN),
        rounds=checks.whole("rounds", rounds, LEAST_ROUNDS, MOST_ROUNDS),
        verify=None if verify is None else checks.whole("verify", verify, 1, MOST_COMPARED_RUNS),
        timeout=checks.number("timeout", timeout),
        sanitize=sanitize,
        seed=None if seed is None else checks.whole("seed", seed, 0, MOST_SEED),
    )
    with snapshot.kept(noted):
        try:
            return evaluated(request, noted)
        except OptionError as error:
            raise RequestError(error.in_python) from None


def _several_sizes(sizes: Any) -> list[Any]:
    """One size or several as a list. A list of numbers is one size."""
    if sizes is None:
        return []
    is_one = isinstance(sizes, str | int | Mapping) or all(isinstance(each, int) for each in sizes)
    return [sizes] if is_one else [*sizes]


def evaluated(request: Request, noted: Callable[[str], None]) -> Verdicts:
    """Evaluate candidates. In a block of `snapshot.kept`.

    Raises RequestError if the request is wrong, SpaceError if the space cannot judge, DeviceError if the device cannot
    be used, and EnvironmentTrouble if a fault of the machine persists.
    """
    space = request.against if isinstance(request.against, Space) else catalog.load(request.against)
    candidate.check(space, request.tune)
    check_timeout(request.timeout)
    if not request.candidates:
        raise RequestError("no candidate is given; name at least one file with the text of a kernel")
    candidates = [CandidateText.of(path) for path in request.candidates]
    spaces = [each.space(space) for each in candidates]
    chosen = [Chosen.parse(space.operation, size, request.options, request.types) for size in (request.sizes or [None])]
    names = devices.several(space, request.device)
    for name in names if request.sanitize else ():
        sanitizer.require(name)
    seed = secrets.randbelow(MOST_SEED + 1) if request.seed is None else request.seed
    task = {
        "space": launch_form.to_json(space, chosen[0].options),
        "sizes": [each.sizes for each in chosen],
        "options": chosen[0].options,
        "types": chosen[0].types,
        **{name: getattr(request, name) for name in TOLD},
        "seed": seed,
    }
    named = {(each.path, each.sha256): (each, own) for each, own in zip(candidates, spaces, strict=True)}
    asked = [
        {"name": str(each.path), "sha256": each.sha256, "space": launch_form.to_json(own)}
        for each, own in named.values()  # one that is named twice is judged once
    ]
    results = _in_parallel(task, names, asked, space, noted)
    verdicts = {(each.candidate, each.sha256): each for _, found in results for each in found}
    ordered = [verdicts[str(each.path), each.sha256] for each in candidates]
    receipt = {
        "format": FORMAT,
        "version": VERSION,
        "against": space.name,
        "path": str(space.files[0]) if space.files else "",
        "space": _digest(task["space"]),
        "kernel": {path.name: hashlib.sha256(snapshot.read(path)).hexdigest() for path in space.sources},
        "request": {"device": request.device, **{name: value for name, value in task.items() if name != "space"}},
        "judged_on": [about for about, _ in results],
        "verdicts": [each.to_json() for each in ordered],
    }
    return Verdicts(ordered, receipt)


def _in_parallel(
    task: dict[str, Any],
    names: Sequence[str],
    asked: Sequence[dict[str, Any]],
    space: Space,
    noted: Callable[[str], None],
) -> list[tuple[dict[str, Any], list[CandidateVerdict]]]:
    """What the judge on each device says of itself, and its verdicts on its share of the candidates."""
    shares = [asked[place :: len(names)] for place in range(len(names))]
    working = [(name, share) for name, share in zip(names, shares, strict=True) if share]
    judges = [Process(JUDGE, beforehand=BEFOREHAND) for _ in working]
    try:
        with ThreadPoolExecutor(len(working)) as pool:
            jobs = [
                pool.submit(_judged, judge, {**task, "device": name}, share, space, noted)
                for judge, (name, share) in zip(judges, working, strict=True)
            ]
            try:
                return [job.result() for job in jobs]
            except BaseException:
                for judge in judges:  # else the others would go on to their ends
                    judge.stop()
                raise
    finally:
        for judge in judges:
            judge.close()


def _judged(
    judge: Process, task: dict[str, Any], asked: Sequence[dict[str, Any]], space: Space, noted: Callable[[str], None]
) -> tuple[dict[str, Any], list[CandidateVerdict]]:
    """What a judge on one device says of itself, and its verdicts."""

    def heard(news: dict[str, Any]) -> None:
        if "call" in news:
            judge.answer(function_objects.answer(space.operation, news, judge.folder))
        else:
            noted(news["note"])

    try:
        about = judge.ask({**task, "files": snapshot.to_json()}, PATIENCE_SECONDS, heard)
        found = list[CandidateVerdict]()
        for start in range(0, len(asked), GROUP):
            group = asked[start : start + GROUP]
            reply = judge.ask({"candidates": list(group)}, PATIENCE_SECONDS, heard)
            found += [CandidateVerdict.from_json(each) for each in reply["verdicts"]]
        return about, found
    except WorkerDied as died:
        raise EnvironmentTrouble(f"{task['device']}: the judge has ended: {died}") from None


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
