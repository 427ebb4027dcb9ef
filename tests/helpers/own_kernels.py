"""Kernels of a user's own, in folders of the user's own."""

from __future__ import annotations

from pathlib import Path

SOURCE = """\
void scale(float *y, const float *x, int n) {{
    for (int i = 0; i < n; i += unroll)
        for (int j = i; j < i + unroll && j < n; j++) y[j] = {factor} * x[j];
}}
"""

SPACE = """\
title: Multiply by {factor}
operation:
  sizes: {{n: 1000}}
  extent: [n]
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: x, dtype: float32, shape: [n], role: in}}
    - {{name: n, dtype: int32}}
  reference: {factor} * x
  bytes: 8 * n
kernel: scale
source: {source}
parameters: {{unroll: [1, 2]}}
"""


def scaled(folder: Path, stem: str, factor: int = 2, source: str = "") -> Path:
    """A kernel on the host that multiplies by `factor`. Its size has a default, and it has no default configuration.
    Gives its space file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (source or f"{stem}.c")).write_text(SOURCE.format(factor=factor))
    file = folder / f"{stem}.yaml"
    file.write_text(SPACE.format(factor=factor, source=source or f"{stem}.c"))
    return file


def project(root: Path, toml: str, *stems: str, folder: str = "tuning") -> Path:
    """A project with a tuner.toml, and a kernel for each of `stems`, paths in its folder."""
    for stem in stems:
        file = root / folder / stem
        scaled(file.parent, file.name)
    (root / "tuner.toml").write_text(toml)
    return root
