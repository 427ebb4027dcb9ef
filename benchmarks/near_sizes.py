"""A search with few evaluations, on a device, that knows the records of two other sizes.

    python benchmarks/near_sizes.py hgemm/02_mma_naive sgemm/06_tiled --near 2048 8192 --size 4096

Tunes each kernel at the sizes of `--near` with the budget `--trials` and short finals, in an empty store, from a copy
of the space file that no shipped record or recording belongs to. Then it searches at `--size` with `--budget`
evaluations, which knows what the store has by then. All this is done anew with each of `--seeds`; the last search
continues with the budget `--truth`. At the end, the best that the few evaluations of each seed found, the best of all
evaluations, and the configurations of the shipped records of that size are measured in the same rounds. Prints how fast
the first ones are, relative to the fastest, and after which evaluation each was found. `--keep` appends all trials to a
file, one search a line.

With `--misled`, what was measured at the sizes of `--near` is turned around: what was slowest there is known as the
fastest, without records. It prints after how many evaluations of the budget `--truth` a search at `--size` that knows
this, and one that knows nothing, is within 1 % of the best of both, by the times of the searches.

With `--sibling "NVIDIA H100 80GB HBM3"`, nothing is tuned before: the store has, as a log of that device, what the
shipped time table knows of its times at `--size`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import search_time  # beside this file

from tuner import devices, paths
from tuner.catalog import catalog
from tuner.devices.conditions import DEFAULT
from tuner.measure import turns
from tuner.measure.benchmark import Bench
from tuner.space import chosen_types, parsing
from tuner.space.sources.rendering import Version
from tuner.store import time_tables
from tuner.store.store import Store
from tuner.tuning.crew.crews import Crews
from tuner.tuning.driver import tune_with
from tuner.tuning.exploration import explored
from tuner.tuning.ledger.trial import Trial
from tuner.tuning.progress import Quiet
from tuner.tuning.recordings import logs
from tuner.tuning.recordings import recording as recordings
from tuner.tuning.recordings.recording import Entry
from tuner.tuning.request import CheckedRequest, TuningRequest

Config = dict[str, Any]

OF_FEW, OF_ALL, OF_RECORD = 3, 4, 3  # how many candidates of each kind are measured again
SECONDS = 2.0  # of the rounds at the end


def main() -> None:
    """Tune each kernel at three sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+")
    parser.add_argument("--near", nargs="+", default=["2048", "8192"], help="the sizes that are tuned before")
    parser.add_argument("--size", default="4096")
    parser.add_argument("--trials", default="60,10s", help="the budget at each size of --near")
    parser.add_argument("--budget", type=int, default=8, help="evaluations at --size that count")
    parser.add_argument("--truth", default="150,15s", help="the budget of the search for the best, at --size")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--sibling", metavar="DEVICE", help="whose times are known, instead of other sizes")
    parser.add_argument("--misled", action="store_true", help="turn what is known around")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.misled and (options.seeds != [0] or options.sibling):
        parser.error("--misled takes neither --seeds nor --sibling: it compares two searches after --near with seed 0")
    for kernel in options.kernels:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as name:
            os.environ["TUNER_STATE"] = f"{name}/state"
            outcome = (misled if options.misled else compared)(kernel, options, Path(name))
            print(f"{kernel}: {outcome}; {time.monotonic() - began:.0f} s", flush=True)


def compared(kernel: str, options: argparse.Namespace, folder: Path) -> str:
    """Search, and measure the candidates again."""
    file = str(search_time.alone(search_time.ROOT / f"spaces/{kernel}.yaml", folder))
    progress, few, trials = Quiet(lambda text: None), dict[int, list[Trial]](), list[Trial]()
    known = dict[int, str]()
    with Crews(progress.noted) as crews:
        for seed in options.seeds:
            results = folder / f"results {seed}"
            os.environ["TUNER_STATE"] = str(folder / f"state {seed}")  # so that no seed knows another's trials
            how = {"device": options.device, "results": results, "quick": True, "seed": seed}
            if options.sibling:
                known[seed] = f"{logged(file, kernel, options, results)} known of {options.sibling}"
            else:
                counts = []
                for near in options.near:
                    before = tune_with(crews, TuningRequest(file, near, budget=options.trials, **how), progress).trials
                    keep(options.keep, kernel, near, before)
                    counts.append(f"{len(before)} at {near}")
                known[seed] = ", ".join(counts)
            budgets = [str(options.budget), *([options.truth] if seed == options.seeds[-1] else [])]
            for budget in budgets:
                request = CheckedRequest.of(TuningRequest(file, options.size, budget=budget, **how))
                with explored(crews, request, progress) as search:
                    few.setdefault(seed, search.trials)
                    found = search.trials
            keep(options.keep, kernel, options.size, found)
            trials += found
    candidates = [config for seed in options.seeds for config in best(few[seed], OF_FEW)]
    candidates += [*best(trials, OF_ALL), *recorded(kernel, options, OF_RECORD)]
    chosen = [config for place, config in enumerate(candidates) if config not in candidates[:place]]
    times = beside(file, options, chosen)
    texts = []
    for seed in options.seeds:
        config = min(best(few[seed], OF_FEW), key=lambda config: times[chosen.index(config)])
        time_ms, number = times[chosen.index(config)], [trial.config for trial in few[seed]].index(config) + 1
        texts.append(f"{min(times) / time_ms:.2%} after evaluation {number} of {len(few[seed])} ({known[seed]})")
    return (
        f"of the best's speed, {'; '.join(texts)}; the best of {len(trials)} and of the records takes "
        f"{min(times):.5g} ms"
    )


def misled(kernel: str, options: argparse.Namespace, folder: Path) -> str:
    """Search without knowledge, and with knowledge that is turned around."""
    file = str(search_time.alone(search_time.ROOT / f"spaces/{kernel}.yaml", folder))
    progress, searches = Quiet(lambda text: None), dict[str, list[Trial]]()

    def request(size: str, budget: str, results: str) -> TuningRequest:
        return TuningRequest(file, size, options.device, budget=budget, results=folder / results, quick=True)

    with Crews(progress.noted) as crews:
        for near in options.near:
            tune_with(crews, request(near, options.trials, "misled"), progress)
        known = turned(folder / "misled")
        for results in ("cold", "misled"):
            os.environ["TUNER_STATE"] = str(folder / f"state of {results}")  # so that none knows the other's trials
            with explored(crews, CheckedRequest.of(request(options.size, options.truth, results)), progress) as search:
                searches[results] = search.trials
            keep(options.keep, kernel, f"{options.size}, {results}", searches[results])
    times = {results: [trial.time_ms or math.inf for trial in trials] for results, trials in searches.items()}
    limit = 1.01 * min(map(min, times.values()))
    texts = []
    for results, measured in times.items():
        reached = next((number for number, time_ms in enumerate(measured, 1) if time_ms <= limit), "none")
        texts.append(f"{results}: {reached} of {len(measured)}")
    return f"within 1 % of the best after evaluation, {'; '.join(texts)} (it knows {known} turned around)"


def turned(results: Path) -> int:
    """Give each logged configuration the reciprocal of its time, remove the records, and return how many are known."""
    count = 0
    for path in (results / logs.FOLDER).glob("*.json.gz"):
        log = recordings.read(path)
        entries = {row: replace(each, time_ms=each.time_ms and 1 / each.time_ms) for row, each in log.entries.items()}
        recordings.write(path, replace(log, entries=entries))
        count += len(entries)
    for path in results.rglob("*.jsonl"):
        path.unlink()
    return count


def logged(file: str, kernel: str, options: argparse.Namespace, results: Path) -> int:
    """Keep the sibling's times at the size as a log, and return how many there are."""
    space = catalog.load(file)
    sizes = parsing.parse_size(options.size, space.operation)
    tables, _ = time_tables.read_file(time_tables.path(kernel, paths.shipped("results")))
    times = {
        key: (table, by_size[tuple(sizes.values())])
        for table in tables
        if table.device == options.sibling
        for key, by_size in table.times.items()
        if tuple(sizes.values()) in by_size
    }
    measured = [(dict(table.configs[key]), Entry(time_ms)) for key, (table, time_ms) in times.items()]
    op = space.operation
    about = sizes, op.options, chosen_types.defaults(op), DEFAULT, Version.of(space).code
    logs.keep(logs.LoggedProblem(space.name, "cuda", options.sibling, "", *about), space, measured, results)
    return len(measured)


def best(trials: Sequence[Trial], count: int) -> list[Config]:
    """The fastest configurations."""
    timed = [trial for trial in trials if trial.time_ms is not None]
    return [trial.config for trial in sorted(timed, key=lambda trial: trial.time_ms or 0.0)[:count]]


def recorded(kernel: str, options: argparse.Namespace, count: int) -> list[Config]:
    """Configurations of the shipped records of the size, and the fastest ones of time tables, but the sibling's."""
    space = catalog.load(kernel)
    sizes = parsing.parse_size(options.size, space.operation)
    records = [record for record in Store.of(space, None).records if record.sizes == sizes]
    configs = [config for record in records for config, _ in record.timed[:count]]
    tables, _ = time_tables.read_file(time_tables.path(kernel, paths.shipped("results")))
    for table in tables:
        if table.device != options.sibling:
            here = {key: each[point] for key, each in table.times.items() if (point := tuple(sizes.values())) in each}
            configs += [dict(table.configs[key]) for key in sorted(here, key=here.__getitem__)[:count]]
    return [config for config in configs if config.keys() == space.parameters.keys()]


def beside(file: str, options: argparse.Namespace, configs: Sequence[Config]) -> list[float]:
    """The median times in ms, measured in the same rounds; infinite for what cannot be run."""
    space, device = catalog.load(file), devices.open_device(options.device)
    op = space.operation
    sizes, types = parsing.parse_size(options.size, op), chosen_types.defaults(op)
    scope = op.scope(sizes, op.options, device.language, device.limits, types)
    valid = [config for config in configs if space.valid(config, scope)]
    with turns.taken(device.place):
        finals = Bench(device, space, scope).finals(valid, SECONDS).candidates
    times = {json.dumps(config): final.time_ms for config, final in zip(valid, finals, strict=True)}
    return [times.get(json.dumps(config), float("inf")) for config in configs]


def keep(file: Path | None, kernel: str, size: str, trials: Sequence[Trial]) -> None:
    """Append the trials of a search, in their order: configurations, times in ms, and occupancies."""
    if file is not None:
        tried = [(trial.config, trial.time_ms, trial.outcome.occupancy) for trial in trials]
        with file.open("a") as out:
            out.write(json.dumps({"kernel": kernel, "size": size, "trials": tried}) + "\n")


if __name__ == "__main__":
    main()
