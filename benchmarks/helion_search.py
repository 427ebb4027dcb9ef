"""Helion's search on recorded spaces, by its public door `helion.autotuner.autotune`.

    python benchmarks/helion_search.py FOLDER --seeds 8

Needs helion and torch, whose build for processors is enough: nothing is compiled or launched, each configuration takes
the time of the recording. Prints, for each space and algorithm, the optimum divided by the best time after 25, 50 and
100 evaluations, as the geometric mean over seeds. `search.py` runs these algorithms beside others, as `helion:NAME`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import math
import random
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tuner.exchange.replay import Replay
from tuner.space.config import Value
from tuner.tuning.recordings import recording
from tuner.tuning.recordings.recording import Recording

PREFIX = "helion:"
# The algorithm, and how many configurations it draws at random first: 100 by default, 30 with its effort `quick`.
ALGORITHMS: Mapping[str, tuple[str, dict[str, int]]] = {
    f"{PREFIX}lfbo": ("LFBOTreeSearch", {}),
    f"{PREFIX}lfbo_quick": ("LFBOTreeSearch", {"initial_population": 30, "copies": 2, "max_generations": 5}),
    f"{PREFIX}lfbo_small": ("LFBOTreeSearch", {"initial_population": 10, "copies": 2, "max_generations": 20}),
    f"{PREFIX}lfbo_pattern": ("LFBOPatternSearch", {"initial_population": 30, "copies": 2, "max_generations": 5}),
}
MOST_RUNS = 20  # of a search that ends before the budget does: it begins anew with another seed


class _SpentError(Exception):
    """The budget is spent."""


def fragment(values: Sequence[Value], default: Value | None = None) -> Any:
    """The kind of parameter in Helion that has these values, with their order where Helion knows it, and this default,
    or the first value."""
    from helion.autotuner import EnumFragment, IntegerFragment, PowerOfTwoFragment

    numbers = sorted(value for value in values if type(value) is int)
    are_powers = bool(numbers) and numbers[0] > 0 and numbers[0] & (numbers[0] - 1) == 0
    if are_powers and len(numbers) == len(values) > 1 and all(b == 2 * a for a, b in pairwise(numbers)):
        return PowerOfTwoFragment(numbers[0], numbers[-1], numbers[0] if default is None else default)
    if len(numbers) == len(values) > 1 and all(b == a + 1 for a, b in pairwise(numbers)):
        return IntegerFragment(numbers[0], numbers[-1], numbers[0] if default is None else default)
    first = values[0] if default is None else default
    return EnumFragment(choices=(first, *(value for value in values if value != first)))


def replay(data: Recording, name: str, evaluations: int, seed: int) -> Replay:
    """The algorithm `name` of ALGORITHMS on a recording, until so many different valid configurations were asked for.

    Combinations that are no configuration cost nothing: Helion is told so before it measures them. A repeated
    configuration costs nothing either.
    """
    import torch
    from helion.autotuner import autotune, search_algorithms
    from helion.autotuner.benchmark_provider import BenchmarkProvider, BenchmarkResult
    from helion.exc import NoConfigFound

    algorithm, options = ALGORITHMS[name]
    found: dict[tuple[Value, ...], float | None] = {}

    class Recorded(BenchmarkProvider):  # type: ignore[misc]  # helion is not installed where types are checked
        """Takes times from the recording."""

        def __init__(self, kernel: Any, **_: Any) -> None:
            self.mutated_arg_indices: Sequence[int] = ()

        def benchmark(self, configs: list[Any], **_: Any) -> list[Any]:
            """One result for each configuration."""
            return [self._result(config) for config in configs]

        def _result(self, config: Any) -> Any:
            row = tuple(config.config[parameter] for parameter in data.parameters)
            entry = data.entries.get(row)
            if entry is None:
                return BenchmarkResult(config, _nothing, math.inf, "filtered", None)
            if row not in found:
                if len(found) == evaluations:
                    raise _SpentError
                found[row] = entry.time_ms
            if entry.time_ms is None:
                return BenchmarkResult(config, _nothing, math.inf, "error", 0.0)
            return BenchmarkResult(config, _nothing, entry.time_ms, "ok", 0.0)

        def setup(self) -> None:
            """Do nothing."""

        def cleanup(self) -> None:
            """Do nothing."""

    class Search(search_algorithms[algorithm]):  # type: ignore[misc]
        """The algorithm with recorded times."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._benchmark_provider_cls = Recorded

        def rebenchmark(self, members: Any, **_: Any) -> None:
            """Do nothing: a second time would be the same."""

        def final_rebenchmark_best(self, best: Any) -> Any:
            """Accept the best, for the same reason."""
            return best

    search_algorithms[f"Recorded{algorithm}"] = Search
    tunables = {parameter: fragment(values) for parameter, values in data.parameters.items()}

    def valid(config: Any) -> Any:
        return config if tuple(config.config[p] for p in data.parameters) in data.entries else None

    began = time.process_time()
    for number in range(MOST_RUNS):
        run_seed = seed * MOST_RUNS + number
        random.seed(run_seed)
        # NoConfigFound: all configurations of the first population failed, or were none
        with contextlib.suppress(_SpentError, NoConfigFound), contextlib.redirect_stderr(io.StringIO()):
            autotune(
                tunables,
                lambda config: _nothing,
                (torch.zeros(1),),
                baseline_fn=_nothing,
                algorithm=f"Recorded{algorithm}",
                device=torch.device("cpu"),
                autotune_random_seed=run_seed,
                autotune_progress_bar=False,
                autotune_log_level=logging.CRITICAL,
                autotune_config_filter=valid,
                **options,
            )
        if len(found) >= min(evaluations, len(data.entries)):
            break
    return Replay(name, seed, data.optimum_ms, tuple(found.values()), time.process_time() - began, rows=tuple(found))


def _nothing(*_: Any) -> None:
    """In place of a kernel."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    for path in recording.files(options.folder):
        data = recording.read(path)
        for name in ALGORITHMS:
            runs = [replay(data, name, 100, seed) for seed in range(options.seeds)]
            means = [math.exp(sum(math.log(max(r.fraction(n), 1e-3)) for r in runs) / len(runs)) for n in (25, 50, 100)]
            print(path.name, name, *(f"{mean:.3f}" for mean in means), [len(r.evaluations) for r in runs], flush=True)


if __name__ == "__main__":
    main()
