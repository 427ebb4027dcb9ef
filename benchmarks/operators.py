"""Host time of a torch operator, beside empty operators.

    python benchmarks/operators.py --device cuda

Both overloads of `tuner.torch.operator` alternate with the plain dispatched call, and with empty operators of the same
schemas: one registered by `torch.library.custom_op`, the usual way, and one registered as ours is. The kernel is so
small that the device keeps up.
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
from tuner.torch.operators import uncompiled

SIZE = 16
LIBRARY = torch.library.Library("tuner_benchmark", "FRAGMENT")
KERNELS = {"cuda": "gallery/vector_add", "cpu": "sgemm/00_host_simple"}


def ways(device: str) -> dict[str, Callable[[], object]]:
    """The ways to call, by name."""
    operator = tuner.torch.operator("tuner_benchmark::ours", KERNELS[device])
    for overload in ("default", "out"):
        _register_empty("" if overload == "default" else ".out", getattr(operator, overload)._schema)
    handle = tuner.dispatch(KERNELS[device])
    tensors = [torch.ones(1, SIZE, SIZE, device=device) if device == "cpu" else torch.ones(64, device=device)] * 3
    tensors = [tensor.clone() for tensor in tensors]
    given: list[Any] = tensors if device == "cuda" else [x.numpy() for x in tensors]
    inputs = tensors if device == "cpu" else tensors[1:]  # C is read, too
    bare, custom = torch.ops.tuner_benchmark.bare, torch.ops.tuner_benchmark.custom
    return {
        "our call": partial(handle, *given),
        "out: empty, by custom_op": partial(custom.out, *tensors),
        "out: empty, registered as ours": partial(bare.out, *tensors),
        "out: ours": partial(operator.out, *tensors),
        "default: empty but for a new tensor, by custom_op": partial(custom.default, *inputs),
        "default: the same, registered as ours": partial(bare.default, *inputs),
        "default: ours": partial(operator.default, *inputs),
        "torch: add(x, y, out=z)": partial(torch.add, tensors[1], tensors[2], out=tensors[0]),
    }


def _register_empty(suffix: str, like: Any) -> None:
    """Two operators with the schema of another that do nothing, but for the new tensor that they give without a
    `suffix`."""

    def body(*tensors: torch.Tensor, **named: float) -> Any:
        return None if suffix else torch.empty_like(tensors[0])

    schema = f"({str(like).partition('(')[2]}"
    written = [a.name for a in like.arguments if a.alias_info is not None and a.alias_info.is_write]
    custom = torch.library.custom_op(f"tuner_benchmark::custom{suffix}", body, mutates_args=written, schema=schema)
    custom.register_fake(body)
    LIBRARY.define(f"bare{suffix}{schema}", tags=[torch.Tag.pt2_compliant_tag])
    LIBRARY.impl(f"bare{suffix}", uncompiled(body), "CompositeExplicitAutograd")
    torch.library.register_fake(f"tuner_benchmark::bare{suffix}", body, lib=LIBRARY)


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
    parser.add_argument(
        "--launches", type=int, default=300, help="launches in a row; a GPU's queue holds about a thousand"
    )
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
