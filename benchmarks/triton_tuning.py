"""Kernels in Triton by tuner, beside Triton: the wall time of tuning the same configurations, and of a launch.

    python benchmarks/triton_tuning.py                          # all of it; needs an NVIDIA GPU, torch and Triton
    python benchmarks/triton_tuning.py --most 16 --kernels softmax

Both tune from nothing, each in a process of its own with empty caches, and the time is that of the process: `tune` with
its imports, verification and final round, and a script that calls the kernel under `@triton.autotune`. The latter also
runs with its builds made in parallel first, whose time counts, and both with all builds in their caches.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROBLEMS = {"softmax": "16384x1000", "matmul": "4096x4096x4096", "attention": "16x2048"}
OPTIONS = ("num_warps", "num_stages")
PARTS = {
    "ours": ("tuner",),
    "nothing": ("tuner", "@triton.autotune"),
    "ahead": ("built in parallel",),
    "cached": ("tuner, cached", "Triton, cached"),
}
RATIOS = {
    "from nothing": ("tuner", "@triton.autotune"),
    "beside builds in parallel": ("tuner", "built in parallel"),
    "with all builds cached": ("tuner, cached", "Triton, cached"),
}


def chosen(kernel: str, most: int) -> tuple[Any, Any, list[dict[str, Any]]]:
    """The space, the problem, and at most `most` of its valid configurations, the default among them."""
    from tuner.catalog import catalog
    from tuner.space import chosen_types, parsing
    from tuner.space.scope import Limits

    space = catalog.load(f"triton/{kernel}")
    op = space.operation
    limits = Limits(compute_capability=9.0, max_shared_memory=227 << 10)
    sizes = parsing.parse_size(PROBLEMS[kernel], op)
    scope = op.scope(sizes, op.options, "cuda", limits, chosen_types.defaults(op))
    valid = [config for config in space.walk() if space.valid(config, scope) and config != dict(space.default)]
    others = min(most - 1, len(valid))
    return space, scope, [dict(space.default), *(valid[number * len(valid) // others] for number in range(others))]


def as_file(kernel: str, most: int, folder: Path) -> Path:
    """A space file whose only valid configurations are those chosen."""
    import yaml

    _, _, configs = chosen(kernel, most)
    data = yaml.safe_load((ROOT / f"spaces/triton/{kernel}.yaml").read_text())
    code = {name: 1000**place for place, name in enumerate(configs[0])}  # of a configuration, as one number
    codes = [sum(factor * int(config[name]) for name, factor in code.items()) for config in configs]
    terms = " + ".join(f"{factor} * {name}" for name, factor in code.items())
    data["derived"] = {**data.get("derived", {}), "code": terms}
    half = len(codes) // 2  # an expression has a length
    listed = f"code in ({', '.join(map(str, codes[:half]))}) or code in ({', '.join(map(str, codes[half:]))})"
    data["restrictions"] = [*data.get("restrictions", []), {"that": listed, "because": "Triton tunes these"}]
    if isinstance(reference := data["operation"]["reference"], dict):
        reference["python"] = str(ROOT / "spaces/triton" / reference["python"])
    data["source"] = str(ROOT / f"kernels/triton/{kernel}.py")
    (folder / f"{kernel}.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    return folder / f"{kernel}.yaml"


def arguments(space: Any, scope: Any) -> list[Any]:
    """Tensors and numbers in the order of the kernel."""
    import torch

    from tuner.space import operation

    torch.manual_seed(1)
    numbers = iter(operation.scalars(space.operation, scope))
    return [
        next(numbers).item()
        if a.shape is None
        else torch.rand(operation.shape(a, scope), device="cuda").to(getattr(torch, a.dtype))
        for a in space.operation.arguments
    ]


def jit_of(kernel: str) -> Any:
    """The kernel as Triton has it."""
    spec = importlib.util.spec_from_file_location(kernel, ROOT / f"kernels/triton/{kernel}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[kernel] = module
    spec.loader.exec_module(module)
    return getattr(module, kernel)


def listed(configs: list[dict[str, Any]]) -> list[Any]:
    """Configurations as Triton has them."""
    import triton

    return [
        triton.Config(
            {n: v for n, v in config.items() if n not in OPTIONS}, **{n: config[n] for n in OPTIONS if n in config}
        )
        for config in configs
    ]


def build_ahead(function: Any, kernel: str, configs: list[dict[str, Any]], constants: dict[str, Any]) -> None:
    """Fill Triton's cache in parallel, before this process uses the GPU."""
    space, scope, _ = chosen(kernel, 1)
    count = min(len(os.sched_getaffinity(0)), len(configs))
    children = []
    for number in range(count):
        if not (child := os.fork()):
            try:
                values = arguments(space, scope)
                for config in configs[number::count]:
                    function.warmup(*values, grid=(1,), **config, **constants)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


def autotuned(kernel: str, most: int, ahead: bool) -> None:
    """Tune a kernel by `@triton.autotune`, as a script does; `ahead`: after all builds were made in parallel."""
    began = time.perf_counter()
    import torch
    import triton

    space, scope, configs = chosen(kernel, most)
    function, names = jit_of(kernel), space.names(configs[0], scope)
    given = {*configs[0], *(argument.name for argument in space.operation.arguments)}
    constants = {name: names[name] for name in function.arg_names if name not in given}
    if ahead:
        build_ahead(function, kernel, configs, constants)
    built = time.perf_counter() - began
    tuned = triton.autotune(listed(configs), key=[])(function)
    values = arguments(space, scope)
    tuned[lambda meta: space.steps[0].blocks({**space.names(configs[0], scope), **meta})](*values, **constants)
    torch.cuda.synchronize()
    best = {**tuned.best_config.kwargs, "num_warps": tuned.best_config.num_warps}
    print(f"{time.perf_counter() - began - built:.1f} s without the builds; " * ahead + json.dumps(best))


def seconds_of(command: list[str], folder: Path) -> tuple[float, str]:
    """The wall time of a process with empty caches, and its last lines."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "TUNER_CACHE": str(folder / "cache")}
    environment |= {"TUNER_STATE": str(folder / "state"), "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - began, "; ".join(done.stdout.strip().splitlines()[-3:])


def tuning(kernel: str, most: int, times: int, parts: list[str]) -> None:
    """Print the wall times of both: each of `times`, in turns."""
    print(f"{kernel} {PROBLEMS[kernel]}, at most {most} configurations")
    seconds: dict[str, list[float]] = {}
    for number in range(times):
        with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
            file = as_file(kernel, most, Path(ours))
            tune = [sys.executable, "-m", "tuner", str(file), PROBLEMS[kernel]]
            script = [sys.executable, __file__, "--autotune", kernel, "--most", str(most)]
            runs = {
                "tuner": ([*tune, "--results", f"{ours}/results"], Path(ours)),
                "@triton.autotune": (script, Path(theirs)),
                "built in parallel": ([*script, "--ahead"], Path(theirs) / "ahead"),
                "tuner, cached": ([*tune, "--results", f"{ours}/again", "--fresh"], Path(ours)),
                "Triton, cached": (script, Path(theirs)),
            }
            for name in dict.fromkeys(name for part in PARTS if part in parts for name in PARTS[part]):
                found, said = seconds_of(*runs[name])
                seconds.setdefault(name, []).append(found)
                print(f"  {name:18} {found:6.2f} s   {said if not number else ''}", flush=True)
    for name, (own, other) in {part: pair for part, pair in RATIOS.items() if pair[1] in seconds}.items():
        ratio = median(seconds[other]) / median(seconds[own])
        print(f"  {name}: {ratio:.2f} x, the medians of {times}", flush=True)


def host_us(call: Callable[[], object], calls: int = 500) -> float:
    """The host's time of a call in us: the best of several stretches, short enough for the driver's queue."""
    import torch

    best = float("inf")
    for _ in range(7):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in itertools.repeat(None, calls):
            call()
        best = min(best, (time.perf_counter() - began) / calls)
    return 1e6 * best


def launching() -> None:
    """Print the host's time of a launch of axpy."""
    import torch

    import tuner

    n = 1000
    y, x = torch.rand(2, n, device="cuda")
    kernel = tuner.load("triton/axpy", n)
    theirs = jit_of("axpy")
    config, grid = kernel.config, (-(-n // int(kernel.config["BLOCK"])), 1, 1)
    compiled = theirs.warmup(y, x, n, 2.0, grid=grid, **config)
    compiled._init_handles()
    run = compiled[grid]
    print("the host's time of a launch of axpy, in us")
    calls: dict[str, Callable[[], object]] = {
        "tuner: kernel(y, x)": lambda: kernel(y, x),
        "tuner: bound": kernel.bind(y, x),
        "Triton: kernel[grid](...)": lambda: theirs[grid](y, x, n, 2.0, **config),
        "Triton: compiled[grid](...)": lambda: run(y, x, n, 2.0, config["BLOCK"]),
    }
    for name, call in calls.items():
        print(f"  {name:28} {host_us(call):6.2f}")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--most", type=int, default=24, help="configurations of each kernel")
    parser.add_argument("--times", type=int, default=1, help="runs of each")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS), help="`cached` needs `nothing`")
    parser.add_argument("--autotune", help=argparse.SUPPRESS)
    parser.add_argument("--ahead", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.autotune:
        autotuned(given.autotune, given.most, given.ahead)
        return
    for kernel in given.kernels:
        tuning(kernel, given.most, given.times, given.parts)
    launching()


if __name__ == "__main__":
    main()
