"""What a program gains by tuning for the way in which it launches a kernel: `--as`.

    python benchmarks/as_deployed.py --device cuda
    python benchmarks/as_deployed.py --as graph eager --count 40 gallery/softmax@256x1024

Random configurations of short kernels, the default among them, are verified and measured in the final rounds of each
deployment, on the same arrays. The ranks of two deployments are compared by Kendall's tau, which is 1 for equal ranks
and 0 for unrelated ones. Then the deployment's own best and the best of `isolated` are measured as deployed once more,
by themselves, so that no luck of the first rounds counts. The last columns say by how much a program gains that takes
its own best, and the interval that holds the true gain with a probability of 99 %. One that holds 1 shows no gain.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import median

from scipy.stats import kendalltau

from tuner import devices
from tuner.catalog import catalog
from tuner.errors import TunerError
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.search.enumeration import enumerated
from tuner.space import parsing
from tuner.space.config import Config
from tuner.space.default import declared_or_first
from tuner.space.deployments import CACHES, ISOLATED, Deployment
from tuner.space.instance import Instance
from tuner.space.scope import Scope
from tuner.space.sources.rendering import render
from tuner.space.sources.source import Source
from tuner.space.texts import config_text
from tuner.store import verdicts

PROBLEMS = [  # short on a large GPU
    "gallery/softmax@512x1024",
    "gallery/sum@1048576",
    "gallery/transpose@1024",
    "gallery/histogram@1048576",
    "sgemm/09_coarsened_2d@256",
    "gallery/convolution@256x256",
]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=PROBLEMS, metavar="KERNEL@SIZE")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--as", dest="deployments", nargs="+", choices=list(CACHES), default=["graph"])
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each final round")
    options = parser.parse_args()
    print(f"{'problem':32}{'as':>8}{'tau':>6}  {'best ms, isolated and so':>26}  gain by its own best, interval")
    for problem in options.problems:
        name, _, size = problem.partition("@")
        try:
            _compare(name, size, options.device, options.deployments, options.count, options.seconds)
        except TunerError as error:
            print(f"{problem:32}{error}", flush=True)


def _compare(
    name: str, size: str, device_id: str, deployments: Sequence[Deployment], count: int, seconds: float
) -> None:
    space, device = catalog.load(name), devices.open_device(device_id)
    scope = Scope(parsing.parse_size(size, space.operation), space.operation.options, device.language, device.limits)
    default = declared_or_first(space, scope)
    valid = [*enumerated(space, scope).configs()]
    random.Random(name).shuffle(valid)  # noqa: S311
    configs = [default, *(config for config in valid[:count] if config != default)]
    sources = [render(Instance(space, config, scope))[0].source for config in configs]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(functools.partial(_build, device.kind, device.architecture), sources))
    benches = {each: Bench(device, space, scope, Method(deployment=each)) for each in (ISOLATED, *deployments)}
    times = {each: _finals(bench, configs, seconds) for each, bench in benches.items()}
    known = [i for i in range(len(configs)) if all(own[i] for own in times.values())]
    alone = min(known, key=lambda i: median(times[ISOLATED][i]))
    for each in deployments:
        own = times[each]
        best = min(known, key=lambda i: median(own[i]))
        again = _finals(benches[each], [configs[best], configs[alone]], seconds)
        if not all(again):
            print(f"{name + '@' + size:32}{each:>8}  one of the two failed in the second rounds", flush=True)
            continue
        gain = verdicts.ratio(*again) if best != alone else verdicts.Interval(1.0, 1.0, 1.0)
        tau = kendalltau([median(times[ISOLATED][i]) for i in known], [median(own[i]) for i in known]).statistic
        both = f"{median(times[ISOLATED][alone]):.5f} {median(own[best]):.5f}"
        interval = f"{gain.middle:.4f} [{gain.low:.4f}, {gain.high:.4f}]"
        which = "" if best == alone else f"  {config_text(configs[best])} for {config_text(configs[alone])}"
        print(f"{name + '@' + size:32}{each:>8}{tau:6.2f}  {both:>26}  {interval}{which}", flush=True)
    device.close()


def _build(kind: str, architecture: str, source: Source) -> None:
    """Build a source into the cache; one that does not compile fails in the finals, too."""
    try:
        devices.compiler_for(kind, architecture).build(source)
    except TunerError:
        return


def _finals(bench: Bench, configs: Sequence[Config], seconds: float) -> list[tuple[float, ...]]:
    """The times of each configuration in ms, empty if it failed."""
    found = bench.finals(configs, seconds, with_library=False)
    return [() if final.failure else final.times for final in found.candidates]


if __name__ == "__main__":
    main()
