"""The gallery's kernels beside libraries, and beside kernels that only move as many bytes.

    python benchmarks/peers.py --results results --json peers.json --write docs/gallery.md
    python benchmarks/peers.py vector_add sum --device opencl --size tiny

Each kernel is timed in the configuration that `tuner.load` finds and in its default, in the same rounds as the
installed libraries of `libraries.py`, and as its ceiling: the fastest kernel of `mixes.py` that reads and writes as
many bytes. All get the same inputs and poison, as while tuning, and the libraries' outputs are compared, too. The
ceiling of a compute-bound kernel is the one that `tune devices --measure --results DIR` has measured.

An existing file of --json is extended: problems that are not measured now keep their figures, which the table shows.
With several GPUs, several kernels are prepared at once, and each GPU measures one at a time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gallery_problems import LARGE, SIZE_NAMES, Problem, chosen
from libraries import PEERS, Peer, import_for, library_versions
from mixes import Mix
from slots import Ended, Job, Slots

import tuner
from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import TrialError, TunerError
from tuner.measure import turns
from tuner.measure.benchmark import Bench
from tuner.measure.timing.clock import RunConditions, Stopwatch, interleave, spread
from tuner.measure.workbench import Workbench
from tuner.report import store_tables
from tuner.space import operation
from tuner.space.default import declared_or_first
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import problem_text
from tuner.store import rates
from tuner.store.ceilings_file import StoredCeilings

MIXES = 2  # of the fastest, that take part in the rounds
ROUND_SECONDS, TINY_SECONDS = 3.0, 0.3  # the size `tiny` only shows that the script works
EXPECTED_SECONDS = 45.0  # for a kernel, before one has been measured
TUNED, DEFAULT, LIBRARY, CEILING = "tuned", "default", "library", "ceiling"

Call = Callable[[], None]


@dataclass(frozen=True)
class Rival:
    """What takes part in the rounds. `kind` is one of the four words above."""

    kind: str
    name: str
    call: Call


class SameConditions(RunConditions):
    """The workbench's conditions for all: our kernels, libraries, and ceilings, which leave nothing to compare."""

    def __init__(self, bench: Workbench, rivals: Sequence[Rival]) -> None:
        self._bench, self._kinds = bench, {id(rival.call): rival.kind for rival in rivals}
        self._call: Call = lambda: None

    def expect(self, call: Call) -> None:
        self._call = call
        self._bench.expect(call)

    def pin_inputs(self, runs: int) -> int:
        return self._bench.pin_inputs(runs)

    def prepare(self) -> None:
        self._bench.prepare()
        if isinstance(self._call, Peer):
            self._call.fetch()
        elif self._kinds[id(self._call)] == CEILING:
            self._call()  # its arrays are its own: now the caches hold of them what they hold of the others'

    def may_repeat(self) -> bool:
        return False

    def check(self) -> None:
        if isinstance(self._call, Peer):
            self._call.deliver()
        if self._kinds[id(self._call)] != CEILING:
            self._bench.check()


class Clock(Stopwatch):
    """A stopwatch that has a clock for libraries on the host, too: that of OpenCL sees nothing but its own launches."""

    def __init__(self, device: Device, conditions: SameConditions) -> None:
        super().__init__(device, conditions)
        self._same = conditions

    def time(self, call: Call) -> float:
        if not (isinstance(call, Peer) and call.on_host):
            return super().time(call)
        self.expect(call)
        self._same.prepare()
        began = time.perf_counter()
        call()
        time_ms = (time.perf_counter() - began) * 1e3
        self._same.check()
        return time_ms


def compared(problem: Problem, size: str, device: Device, results: Path | None, seconds: float) -> dict[str, Any]:
    """One kernel beside all of its peers. Raises TunerError where it cannot be measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `match` says it
        kernel = tuner.load(
            problem.kernel, problem.size(size), device=device, types=dict(problem.types), results=results
        )
    space, scope = kernel.space, kernel.scope
    bench, notes = Bench(device, space, scope), list[str]()
    read = sum(operation.nbytes(a, bench.workbench.nominal) for a in space.operation.arrays if a.role != "out")
    written = sum(operation.nbytes(a, bench.workbench.nominal) for a in space.operation.arrays if a.role != "in")
    mix = Mix(device, read, written) if problem.bound == "memory" else None
    import_for(problem.name)
    with turns.taken(device.place):
        rivals = _rivals(problem, bench, kernel.config, mix, notes)
        stopwatch = Clock(device, SameConditions(bench.workbench, rivals))
        rounds = interleave(device, stopwatch, [rival.call for rival in rivals], seconds)
    rows = []
    for position, (rival, times) in enumerate(zip(rivals, rounds.times, strict=True)):
        if position in rounds.errors:
            notes.append(f"{rival.name}: {rounds.errors[position]}")
        else:
            row = {"kind": rival.kind, "name": rival.name, "ms": median(times), "spread": spread(times)}
            rows.append({**row, "rounds": len(times)})
    found: dict[str, Any] = {
        "kernel": problem.title,
        "problem": problem_text(dict(scope.sizes), dict(scope.types)),
        "device": device.name,
        "match": kernel.match,
        "config": kernel.config,
        "rows": rows,
        "notes": notes,
        "libraries": library_versions(device),
        "bytes": _bytes(scope, space.operation, read + written),
        "mix": None if mix is None else {"words": mix.words, "bytes": mix.nbytes},
    }
    return found | _shares(found, space, scope, StoredCeilings(results).of(device))


def _rivals(problem: Problem, bench: Bench, config: Any, mix: Mix | None, notes: list[str]) -> list[Rival]:
    """All that takes part, each of which has been right. Raises TrialError where our kernel is not."""
    rivals = []
    default = declared_or_first(bench.space, bench.scope)
    for kind, chosen_config in ((TUNED, config), (DEFAULT, default)):
        if kind == TUNED or (chosen_config != config and bench.space.valid(chosen_config, bench.scope)):
            call, _ = bench.prepare(chosen_config)
            bench.workbench.verify(call)
            rivals.append(Rival(kind, kind, call))
    for name, maker in PEERS.get(problem.name, {}).items():
        try:
            peer = Peer(name, maker, bench.workbench)
            bench.workbench.verify(peer.run)
        except ImportError:
            continue
        except Exception as error:  # a library may lack a type, or be wrong at a size
            notes.append(f"{name}: left out: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            continue
        rivals.append(Rival(LIBRARY, name, peer))
    if not any(rival.kind == LIBRARY for rival in rivals):
        notes.append("no library here computes it")
    if mix is not None:
        rivals += [Rival(CEILING, f"{mix.words} {number}", call) for number, call in enumerate(mix.fastest(MIXES), 1)]
    return rivals


def _bytes(scope: Scope, op: Any, moved: int) -> float:
    """The bytes that a run must move: those that the operation counts, else those of all arrays."""
    return moved if op.bytes is None else float(op.bytes.evaluate(scope.names))


def _shares(found: dict[str, Any], space: Space, scope: Scope, ceilings: Any) -> dict[str, Any]:
    """Rates and ratios of what was measured; None where there is nothing to compare with."""
    best = {kind: _best(found, kind) for kind in (TUNED, DEFAULT, LIBRARY, CEILING)}
    tuned = best[TUNED]
    if tuned is None:
        raise TrialError("it was wrong in a round", "wrong result")
    ms, library, default, ceiling = tuned["ms"], best[LIBRARY], best[DEFAULT], best[CEILING]
    of_peak = rates.of(space, scope, ms, ceilings)
    gbytes = found["bytes"] / ms / 1e6
    at_most = ceiling and found["mix"]["bytes"] / ceiling["ms"] / 1e6
    return {
        "gbytes": gbytes,
        "ceiling_gbytes": at_most,
        "vs_ceiling": at_most and gbytes / at_most,
        "gflops": of_peak.gflops,
        "peak": of_peak.peak,
        "vs_peak": of_peak.vs_peak,
        "library": library and library["name"],
        "vs_library": library and library["ms"] / ms,
        "gain": default["ms"] / ms if default else 1.0,
    }


def _best(found: dict[str, Any], kind: str) -> dict[str, Any] | None:
    return min((row for row in found["rows"] if row["kind"] == kind), key=lambda row: row["ms"], default=None)


def tables(entries: Sequence[dict[str, Any]]) -> str:
    """A Markdown table for each device, with a line per kernel and problem, and the versions of the libraries."""
    by_device: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        by_device.setdefault(entry["device"], []).append(entry)
    parts = []
    for device, measured in by_device.items():
        head = (
            f"| {device} | problem | ms (spread) | rate | share of the ceiling | times the library | over the default |"
        )
        versions = dict.fromkeys(f"{name} {version}" for e in measured for name, version in e["libraries"].items())
        lines = [head, "|---|---|---:|---:|---|---|---:|", *map(_line, measured)]
        parts += ["\n".join(lines), f"Libraries: {', '.join(versions)}."]
    return "\n\n".join(parts)


def _line(entry: dict[str, Any]) -> str:
    """The line of one kernel and problem."""
    tuned = _best(entry, TUNED)
    assert tuned is not None
    if entry["ceiling_gbytes"]:
        rate, mix = f"{entry['gbytes']:,.0f} GB/s", entry["mix"]["words"]
        share = f"{entry['vs_ceiling']:.1%} of {entry['ceiling_gbytes']:,.0f} GB/s ({mix})"
    else:
        rate = f"{entry['gflops'] / 1000:,.1f} TFLOP/s" if entry["gflops"] else ""
        share = f"{entry['vs_peak']:.1%} of {entry['peak']}" if entry["vs_peak"] else "not measured"
    library = f"{entry['vs_library']:.2f} x {entry['library']}" if entry["library"] else "none has it"
    found = "" if entry["match"] == "exact" else f", {entry['match'].replace('_', ' ')}"
    return (
        f"| {entry['kernel']} | {entry['problem']}{found} | {tuned['ms']:.4g} ({tuned['spread']:.1%}) | {rate} "
        f"| {share} | {library} | {entry['gain']:.2f} x |"
    )


def _command(problem: Problem, options: argparse.Namespace, device: str) -> list[str]:
    """The command that measures one kernel, in a process of its own, and prints it as JSON."""
    types = json.dumps(dict(problem.types))
    command = [sys.executable, __file__, problem.name, "--one", types, "--device", device, "--size", options.size]
    return [*command, *(["--results", str(options.results)] if options.results else [])]


def _all(options: argparse.Namespace, problems: Sequence[Problem]) -> list[dict[str, Any]]:
    """Measure all problems, each in a process of its own, and return what the file of --json holds then."""
    kept: dict[str, dict[str, Any]] = {}
    if options.json and options.json.exists():
        kept = {f"{e['kernel']} {e['problem']} {e['device']}": e for e in json.loads(options.json.read_text())}
    on_gpus = options.device == "cuda"
    slots = Slots(list(range(devices.count("cuda"))) if on_gpus else [], options.per_gpu)
    jobs = []
    for problem in problems:
        languages = catalog.load(problem.kernel).languages
        if devices.BACKENDS[devices.split(options.device)[0]].language not in languages:
            print(f"{problem.title}: left out: it is {' and '.join(languages)}", flush=True)
            continue
        command = _command(problem, options, "cuda:0" if on_gpus else options.device)
        jobs.append(Job(problem.title, command, options.size, EXPECTED_SECONDS))

    def ended(job: Ended) -> None:
        if job.status:
            reason = "time was over" if job.stopped else (job.errors.strip().splitlines() or ["it died"])[-1]
            print(f"{job.job.title}: left out: {reason}", flush=True)
            return
        entry = json.loads(job.output.splitlines()[-1])  # a library may print, too
        kept[f"{entry['kernel']} {entry['problem']} {entry['device']}"] = entry
        print(f"{_line(entry)} {job.seconds:.0f} s", flush=True)
        for note in entry["notes"]:
            print(f"  {note}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(list(kept.values()), indent=1) + "\n")

    for job in slots.run(jobs, options.seconds, ended):
        print(f"{job.title}: left out: too little time is left", flush=True)
    order = {problem.title: position for position, problem in enumerate(chosen([]))}
    return sorted(kept.values(), key=lambda entry: order.get(entry["kernel"], len(order)))


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="kernels of the gallery; default: all")
    parser.add_argument("--device", default="cuda", help="`cuda` uses all GPUs")
    parser.add_argument("--size", choices=["tiny", *SIZE_NAMES], default=LARGE)
    parser.add_argument("--results", type=Path, help="folder of records and ceilings")
    parser.add_argument("--seconds", type=float, default=3600.0, help="total time")
    parser.add_argument("--per-gpu", type=int, default=3, help="kernels prepared in parallel per GPU")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--write", type=Path, help="write the table into this file, between its markers")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        problems = chosen(options.kernels)
    except KeyError as error:
        raise SystemExit(f"kernel {error}: the gallery has no problem of this name") from None
    try:
        if options.one is not None:
            problem = next(p for p in problems if dict(p.types) == json.loads(options.one))
            device = devices.open_device(options.device)
            seconds = TINY_SECONDS if options.size == "tiny" else ROUND_SECONDS
            print(json.dumps(compared(problem, options.size, device, options.results, seconds)))
            return
        entries = _all(options, problems)
        if options.write:
            store_tables.put_into(options.write, {"peers": tables(entries)})
        else:
            print(f"\n{tables(entries)}")
    except TunerError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
