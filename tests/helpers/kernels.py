"""Kernels of a test's own, and shipped ones broken by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from helpers.spaces import scope_of
from tuner.catalog import catalog
from tuner.devices import Device
from tuner.measure.benchmark import Bench
from tuner.measure.method import Method
from tuner.space.config import Config
from tuner.space.default import first_valid
from tuner.space.model import Space

Stage = Callable[..., Path]
BLAS_ARGUMENTS = "float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta"

MULTIPLY = """
    for (int i = 0; i < batch * M; i++) for (int j = 0; j < N; j++) {
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i * K + k] * B[(i / M) * K * N + k * N + j];
        C[i * N + j] = beta == 0 ? alpha * s : alpha * s + beta * C[i * N + j];
    }
"""


def c_kernel(name: str, body: str, before: str = "") -> str:
    """The source of a C function with the arguments of sgemm."""
    return f"#include <stdlib.h>\n#include <unistd.h>\n{before}\nvoid {name}({BLAS_ARGUMENTS}) {{\n{body}\n}}\n"


# With mode 3 it does not compile, with mode 2 it does not load; its record is `records.choosy`.
CHOOSY = """
#if mode > 2
#error "this does not compile"
#elif mode == 2
void another_name(void) { }
void choosy() __attribute__((alias("no_such_symbol")));
#else
void choosy(float *C, const float *A, const float *B, int M, int N, int K, int batch, float a, float b) { C[0] = mode; }
#endif
"""


def broken(stage: str, text: str, becomes: str, folder: Path, file: str | None = None) -> Space:
    """The shipped stage, of sgemm or named with its family, with one place of its kernel or of a header changed."""
    path, name = catalog.find(stage if "/" in stage else f"sgemm/{stage}")
    (original,) = catalog.load(name).sources
    copied = {original.name: original.read_text()}
    copied |= {header.name: header.read_text() for header in original.parent.glob("*.h")}  # others are found without
    edited = file or original.name
    assert copied[edited].count(text) == 1, f"{edited} of {stage} has changed: the place to break is not there"
    copied[edited] = copied[edited].replace(text, becomes)
    for copy, content in copied.items():
        (folder / copy).write_text(content)
    (folder / "operation.yaml").write_text((path.parent / "operation.yaml").read_text())
    (folder / path.name).write_text(re.sub(r"(?m)^source: .*$", f"source: {original.name}", path.read_text()))
    return catalog.load(str(folder / path.name))


def outcome_of(space: Space, device: Device, size: str, config: Config | None = None) -> str | None:
    """Why a configuration fails, the first valid one if none is given; None where it is right."""
    options = {name: value for name, value in (("alpha", 1.5), ("beta", -0.75)) if name in space.operation.options}
    scope = scope_of(space, device, size, **options)
    return Bench(device, space, scope, Method(repeats=1)).measure(config or first_valid(space, scope)).failure
