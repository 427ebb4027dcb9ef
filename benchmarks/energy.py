"""How well measured energies repeat: the same configurations, measured again and again by the energy meter.

    python benchmarks/energy.py sgemm/13_double_buffered 4096 --times 10

Measures the best known configuration and the space's default in turns, each as the search and as the finals do. Prints
each one's energies in mJ, and their range over their median. Needs a GPU with an energy counter.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from statistics import median

from tuner import devices
from tuner.catalog import catalog
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.space.chosen import Chosen
from tuner.store.lookup import Query
from tuner.store.store import Store


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("size")
    parser.add_argument("--times", type=int, default=10, help="Measurements of each configuration.")
    options = parser.parse_args()
    space, device = catalog.load(options.kernel), devices.open_device("cuda:0")
    scope = Chosen.parse(space.operation, options.size).scope(device.language, device.limits)
    best = Store.of(space).look_up(Query.of(space, scope, device)).config
    configs = {"best": best, "default": dict(space.default)}
    bench = Bench(device, space, scope, Method(objectives=("energy",)))
    found: dict[str, list[float]] = {name: [] for name in configs}
    for _ in range(options.times):
        for name, config in configs.items():
            outcome = bench.measure(config)
            assert outcome.failure is None, outcome.log
            found[name].append(outcome.energy_mj or 0.0)
    finals = bench.finals([*configs.values()], with_library=False)
    for (name, energies), final in zip(found.items(), finals.candidates, strict=True):
        spread = (max(energies) - min(energies)) / median(energies) if all(energies) else float("nan")
        final_spread = float("nan") if final.energy_spread is None else final.energy_spread
        print(f"{name} on {device.name}: {_texts(energies)} mJ, range {spread:.1%}")
        print(f"  finals: {_texts(final.energies)} mJ, spread {final_spread:.1%}")


def _texts(energies: Iterable[float]) -> str:
    return " ".join(f"{energy:.1f}" for energy in energies)


if __name__ == "__main__":
    main()
