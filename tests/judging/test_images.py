"""Kernels that take images of OpenCL are judged as those that take arrays."""

from __future__ import annotations

from pathlib import Path

import pytest

import tuner

TWICE = """\
__kernel void twice(write_only image2d_t out, read_only image2d_t photo, sampler_t near, int width, int height) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x < width && y < height) write_imagef(out, (int2)(x, y), 2 * read_imagef(photo, near, (int2)(x, y)));
}
"""
SPACE = """\
title: Twice each texel
operation:
  sizes: {height: , width: }
  extent: [width, height]
  arguments:
    - {name: out, kind: image, dtype: float32, shape: [height, width], role: out}
    - {name: photo, kind: image, dtype: float32, shape: [height, width], role: in}
    - {name: near, kind: sampler}
    - {name: width, dtype: int32}
    - {name: height, dtype: int32}
  reference: 2 * photo
kernel: twice
languages: [opencl]
parameters: {columns: [8, 16]}
grid_divisors: {x: [columns], y: [4]}
block: [columns, 4]
"""


@pytest.mark.slow
def test_images_are_compared_texel_by_texel(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    texts = {
        "copy": f"{TWICE}// a copy",
        "rows": TWICE.replace("y < height", "y < 2"),
        "halved": TWICE.replace("2 *", ""),
    }
    files = [tmp_path / f"{name}.cl" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text)
    (tmp_path / "twice.cl").write_text(TWICE)
    (tmp_path / "twice.yaml").write_text(SPACE)
    judged = tuner.evaluate(
        files, tmp_path / "twice.yaml", "16x21", device="opencl", hidden=1, rounds=5, verify=3, seed=49
    )
    assert [verdict.codes for verdict in judged.verdicts] == [[], ["unwritten"], ["wrong"]]
    assert judged.verdicts[0].times[0].time_ms > 0
