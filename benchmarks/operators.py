"""Host time of an operator of torch, ours beside an empty one that is registered the same way.

    python benchmarks/operators.py --device cuda

Both overloads of `tuner.torch.operator` take turns with empty operators of the same schemas, and with our call alone.
The kernel is so small that the device keeps up.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import quantiles
from typing import Any

import torch

import tuner

SIZE = 16
KERNELS = {"cuda": "gallery/vector_add", "cpu": "sgemm/00_host_simple"}


def ways(device: str) -> dict[str, Callable[[], object]]:
    """The ways to call, by name."""
    operator = tuner.torch.operator("tuner_benchmark::ours", KERNELS[device])
    for overload in ("default", "out"):
        schema = getattr(operator, overload)._schema
        name = f"tuner_benchmark::empty{'' if overload == 'default' else '.out'}"
        written = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        body = (lambda *tensors, **named: torch.empty_like(tensors[0])) if overload == "default" else _nothing
        empty = torch.library.custom_op(name, body, mutates_args=written, schema=f"({str(schema).partition('(')[2]}")
        empty.register_fake(body)
    handle = tuner.dispatch(KERNELS[device])
    tensors = [torch.ones(1, SIZE, SIZE, device=device) if device == "cpu" else torch.ones(64, device=device)] * 3
    tensors = [tensor.clone() for tensor in tensors]
    given: list[Any] = tensors if device == "cuda" else [x.numpy() for x in tensors]
    inputs = tensors if device == "cpu" else tensors[1:]  # C is read, too
    hollow: Any = torch.ops.tuner_benchmark.empty
    return {
        "our call": partial(handle, *given),
        "out: an empty operator": partial(hollow.out, *tensors),
        "out: ours": partial(operator.out, *tensors),
        "default: an empty operator, which makes a tensor": partial(hollow.default, *inputs),
        "default: ours": partial(operator.default, *inputs),
        "torch: add(x, y, out=z)": partial(torch.add, tensors[1], tensors[2], out=tensors[0]),
    }


def _nothing(*tensors: torch.Tensor, **named: float) -> None:
    pass


def microseconds(way: Callable[[], object], launches: int, device: str) -> float:
    """Host time of a call, the mean of `launches`."""
    start = time.perf_counter()
    for _ in range(launches):
        way()
    seconds = time.perf_counter() - start
    if device == "cuda":
        torch.cuda.synchronize()
    return seconds / launches * 1e6


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=list(KERNELS))
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--launches", type=int, default=300, help="in a row; a GPU's queue holds about a thousand")
    options = parser.parse_args()
    calls = ways(options.device)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        microseconds(call, 50, options.device)
    for _ in range(options.rounds):
        for name, call in calls.items():
            times[name].append(microseconds(call, options.launches, options.device))
    print("| way | us, median | quartiles |\n|---|---|---|")
    for name, values in times.items():
        low, median, high = quantiles(values, n=4)
        print(f"| {name} | {median:.2f} | {low:.2f} to {high:.2f} |")


if __name__ == "__main__":
    main()
