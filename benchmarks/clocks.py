"""Whether a search's times are those of working clocks: configurations measured after waits, with and without warmth.

    python benchmarks/clocks.py --device cuda
    python benchmarks/clocks.py sgemm/12_warptiled 2048 --count 50 --least 0.1 --most 3

A search measures a configuration alone, after it has waited for its build. Here random configurations are built first.
Each is then measured as in a search, once after an idle wait and once after a wait during which the light kernel of
`tuner/measure/process/warmth.py` ran, in random order; waits are drawn between `--least` and `--most` seconds, evenly
on a logarithmic scale. At last all are measured interleaved, as in the finals. For both kinds of wait, the table has
the median of |search / finals - 1|, the quartiles and the largest of search / finals, and how often the five best of
the search hold the best of the finals, in 2000 draws of 20 of the configurations.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median, quantiles

from tuner import devices
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.errors import TunerError
from tuner.measure.benchmark import Bench
from tuner.measure.process import warmth
from tuner.search.enumeration import enumerated
from tuner.space import parsing
from tuner.space.config import Config
from tuner.space.instance import Instance
from tuner.space.scope import Scope
from tuner.space.sources.rendering import render
from tuner.space.sources.source import Source

BEST, OF, DRAWS = 5, 20, 2000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", nargs="?", default="sgemm/12_warptiled")
    parser.add_argument("size", nargs="?", default="1024")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--least", type=float, default=0.1)
    parser.add_argument("--most", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    device, space = devices.open_device(options.device), catalog.load(options.kernel)
    scope = Scope(
        parsing.parse_size(options.size, space.operation), space.operation.options, device.language, device.limits
    )
    rng = random.Random(options.seed)  # noqa: S311  # draws configurations and waits
    valid = [*enumerated(space, scope).configs()]
    rng.shuffle(valid)
    candidates = valid[: 2 * options.count]
    sources = [render(Instance(space, config, scope))[0].source for config in candidates]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        works = list(pool.map(functools.partial(_builds, device.kind, device.architecture), sources))
    bench = Bench(device, space, scope)
    configs: list[Config] = []
    for config, does_build in zip(candidates, works, strict=True):
        if does_build and len(configs) < options.count and bench.measure(config).failure is None:
            configs.append(config)
    searched: dict[str, dict[int, float]] = {"idle": {}, "kept working": {}}
    for position, config in enumerate(configs):
        for kind in rng.sample(sorted(searched), 2):
            _wait(device, options.least * (options.most / options.least) ** rng.random(), kind == "kept working")
            searched[kind][position] = median(bench.measure(config).times)
    finals = bench.finals(configs, with_library=False)
    times = {i: final.time_ms for i, final in enumerate(finals.candidates) if final.times}
    least, most = min(times.values()), max(times.values())
    print(
        f"{options.kernel} at {options.size} on {device.name}: {len(times)} configurations of {least:.4g} to {most:.4g}"
    )
    print(f"ms, waits of {options.least:g} to {options.most:g} s, a clock of {finals.clock_mhz} MHz in the finals")
    print(f"{'while it waits':16} {'|s/f - 1|':>10} {'s/f: quartiles':>17} {'most':>7} {'five best hold the best':>24}")
    for kind, own in searched.items():
        ratios = sorted(own[i] / times[i] for i in times)
        low, _, high = quantiles(ratios, n=4)
        off = median(abs(ratio - 1) for ratio in ratios)
        print(f"{kind:16} {off:10.2%} {low:9.4f} {high:7.4f} {ratios[-1]:7.4f} {_holds(own, times, rng):24.1%}")


def _builds(kind: str, architecture: str, source: Source) -> bool:
    """Whether a source compiles; its build is cached."""
    try:
        devices.compiler_for(kind, architecture).build(source)
    except TunerError:
        return False
    return True


def _wait(device: Device, seconds: float, keeps_working: bool) -> None:
    if keeps_working:
        end = time.monotonic() + seconds

        def is_over(slice_seconds: float) -> bool:
            time.sleep(slice_seconds)
            return time.monotonic() >= end

        warmth.keep(device, is_over)
    else:
        time.sleep(seconds)


def _holds(searched: Mapping[int, float], finals: Mapping[int, float], rng: random.Random) -> float:
    """How often the five best of the search hold the best of the finals, if only some configurations are tried."""
    known: Sequence[int] = sorted(finals)
    count = 0
    for _ in range(DRAWS):
        drawn = rng.sample(known, min(OF, len(known)))
        count += min(drawn, key=finals.__getitem__) in sorted(drawn, key=searched.__getitem__)[:BEST]
    return count / DRAWS


if __name__ == "__main__":
    main()
