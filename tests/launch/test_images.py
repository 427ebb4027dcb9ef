"""Images and samplers of OpenCL: kernels that read and write them are verified, tuned and launched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tuner
from helpers.kernels import outcome_of
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.errors import ArgumentError, RequestError, SpaceError
from tuner.space.config import Config

cl: Any = pytest.importorskip("pyopencl")  # a machine with GPUs may lack it

BLUR = """\
__kernel void blur(write_only image2d_t out, read_only image2d_t photo, sampler_t edges, int width, int height) {
    for (int j = 0; j < rows; j++) {
        const int x = get_global_id(0), y = get_global_id(1) * rows + j;
        float sum = 0;
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++) sum += read_imagef(photo, edges, (int2)(x + dx, y + dy)).x;
        if (x < width && y < height) write_imagef(out, (int2)(x, y), (float4)(sum));
    }
}
"""
BLURS = """\
title: Each texel with its neighbours
operation:
  sizes: {height: , width: }
  extent: [width, height]
  arguments:
    - {name: out, kind: image, dtype: float32, shape: [height, width], role: out}
    - {name: photo, kind: image, dtype: float32, shape: [height, width], role: in}
    - {name: edges, kind: sampler}
    - {name: width, dtype: int32}
    - {name: height, dtype: int32}
  reference: "correlate(pad(photo, 1, mode='edge'), ones((3, 3)), mode='valid')"
  tolerance: 32 * epsilon
kernel: blur
source: blur.cl
languages: [opencl]
parameters: {rows: [1, 3]}
grid_divisors: {x: [16], y: [2, rows]}
block: [16, 2]
"""
SIZE, SHAPE = "33x70", (33, 70)
CONFIG: Config = {"rows": 3}

# Every type of image, every count of channels, integers as they are and as fractions; `sums` is read and written.
FORMS = """\
constant sampler_t near = CLK_NORMALIZED_COORDS_FALSE | CLK_FILTER_NEAREST | CLK_ADDRESS_NONE;
__kernel void forms(__global float *y, read_only image1d_t line, read_only image2d_t colours,
                    read_only image3d_t volume, read_only image2d_array_t layers, sampler_t smooth,
                    read_write image2d_t sums, int n) {
    const int i = get_global_id(0), j = get_global_id(1);
    const float4 colour = read_imagef(colours, near, (int2)(i, j));
    const int deep = read_imagei(volume, near, (int4)(i, j, 1, 0)).x;
    const uint4 layer = read_imageui(layers, near, (int4)(i, j, 2, 0));
    const float between = read_imagef(line, smooth, (i + 1.0f) / n).x; // halfway to the next texel
    y[j * n + i] = colour.x + 10 * colour.w + 100 * deep + layer.w + between;
    write_imagef(sums, (int2)(i, j), 2 * read_imagef(sums, (int2)(i, j)));
}
"""
FORMED = """\
title: Images of every form
operation:
  sizes: {n: }
  arguments:
    - {name: y, dtype: float32, shape: [4, n], role: out}
    - {name: line, kind: image, type: 1d, dtype: float32, shape: [n], role: in}
    - {name: colours, kind: image, dtype: uint8, read: normalized, shape: [4, n, 4], role: in}
    - {name: volume, kind: image, type: 3d, dtype: int16, shape: [3, 4, n], role: in}
    - {name: layers, kind: image, type: 2d_array, dtype: uint32, shape: [3, 4, n, 4], role: in}
    - {name: smooth, kind: sampler, filter: linear, address: wrap, coordinates: normalized}
    - {name: sums, kind: image, dtype: float16, shape: [4, n, 4], role: inout}
    - {name: n, dtype: int32}
  reference:
    y: >-
      (colours[:, :, 0] + 10 * colours[:, :, 3]) / 255 + 100 * volume[1] + layers[2, :, :, 3]
      + (line + roll(line, -1)) / 2
    sums: 2 * sums
  tolerance: {y: 16000 * epsilon}
  accept: [rounded_inputs]
kernel: forms
source: forms.cl
languages: [opencl]
compile_options: {opencl: [-cl-std=CL3.0]}
grid: [n // threads, 4]
block: [threads]
parameters: {threads: [4]}
"""


@pytest.fixture
def blur(tmp_path: Path) -> Path:
    (tmp_path / "blur.cl").write_text(BLUR)
    (tmp_path / "blur.yaml").write_text(BLURS)
    return tmp_path / "blur.yaml"


def edited(file: Path, text: str, becomes: str, suffix: str = ".cl") -> Path:
    source = file.with_suffix(suffix)
    assert text in source.read_text()
    source.write_text(source.read_text().replace(text, becomes))
    return file


@pytest.mark.slow
def test_a_filter_of_images_is_tuned_and_then_launched_on_the_callers_images(
    opencl: Any, blur: Path, tune: Tune, tmp_path: Path
) -> None:
    done = tune(blur, SIZE, "--device", "opencl", "--budget", "2")
    assert "best: rows=" in done.out, done.err
    kernel = tuner.load(blur, {"height": 33, "width": 70}, device=opencl, results=tmp_path / "results")
    assert kernel.match == "exact"
    photo = np.random.default_rng(1).random(SHAPE, np.float32)
    out, of_photo = image(opencl, np.zeros_like(photo), "w"), image(opencl, photo)
    for call in (lambda: kernel(out, of_photo), kernel.bind(out, of_photo)):
        cl.enqueue_copy(opencl.queue, out, np.zeros_like(photo), origin=(0, 0), region=SHAPE[::-1])
        call()
        result = np.empty_like(photo)
        cl.enqueue_copy(opencl.queue, result, out, origin=(0, 0), region=SHAPE[::-1])
        edges = np.pad(photo, 1, mode="edge")
        windows = np.lib.stride_tricks.sliding_window_view(edges, (3, 3))
        np.testing.assert_allclose(result, windows.sum((2, 3)), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "becomes", "outcome"),
    [
        ("dx <= 1", "dx < 1", "wrong result"),
        ("if (x < width && y < height)", "if (x < width && y < height - 1)", "not a number"),  # unwritten
        ("read_only image2d_t photo", "__global const float *photo", "arguments"),
    ],
)
def test_a_broken_filter_of_images_is_refused(opencl: Any, blur: Path, text: str, becomes: str, outcome: str) -> None:
    if outcome == "arguments":
        edited(blur, "read_imagef(photo, edges, (int2)(x + dx, y + dy)).x", "photo[0]")
    space = catalog.load(str(edited(blur, text, becomes)))
    assert outcome_of(space, opencl, SIZE, CONFIG) == outcome


@pytest.mark.slow
def test_images_of_every_form_hold_what_their_arrays_hold(opencl: Any, tmp_path: Path) -> None:
    (tmp_path / "forms.cl").write_text(FORMS)
    (tmp_path / "forms.yaml").write_text(FORMED)
    assert outcome_of(catalog.load(str(tmp_path / "forms.yaml")), opencl, "8", {"threads": 4}) is None


@pytest.mark.slow
def test_a_launch_names_what_is_wrong_with_an_image(opencl: Any, blur: Path) -> None:
    kernel = tuner.load(blur, {"height": 33, "width": 70}, device=opencl, config=CONFIG)
    photo = np.zeros(SHAPE, np.float32)
    out, right = image(opencl, photo, "w"), image(opencl, photo)
    wrong = {
        r"photo: of type ndarray; pass a pyopencl.Image of type 2d, 70 x 33 texels, R of FLOAT, such as "
        r"pyopencl.image_from_array\(kernel.device.context, photo\)": photo,
        "photo: is an image of type 2d, 33 x 70 texels, R of FLOAT; required: type 2d, 70 x 33": image(opencl, photo.T),
        "photo: is an image of type 2d, 70 x 33 texels, R of SIGNED_INT16": image(opencl, photo.astype(np.int16)),
        "photo: is an image of type 3d, 70 x 33 x 2": image(opencl, np.zeros((2, *SHAPE), np.float32)),
        "photo: this image may only be written; pass one made with READ_WRITE": out,
    }
    for message, given in wrong.items():
        with pytest.raises(ArgumentError, match=message):
            kernel(out, given)
    with pytest.raises(ArgumentError, match="out: this image may only be read"):
        kernel(right, right)
    both = cl.create_image(opencl.context, cl.mem_flags.READ_WRITE, cl.ImageFormat(0x10B0, 0x10DE), shape=SHAPE[::-1])
    with pytest.raises(ArgumentError, match="out: shares memory with photo"):
        kernel(both, both)


def image(device: Any, array: Any, mode: Any = "r") -> cl.Image:
    return cl.image_from_array(device.context, np.ascontiguousarray(array), mode=mode)


def test_no_dispatcher_reads_sizes_from_images(blur: Path, tune: Tune, tmp_path: Path) -> None:
    message = "out is an image, and a dispatcher reads sizes from arrays; load the kernel at one size with tuner.load"
    with pytest.raises(RequestError, match=message):
        tuner.dispatch(blur)
    done = tune("export", blur, "--to", "dispatch", "--output", tmp_path / "folder")
    assert (done.status, message in done.err) == (2, True)


def test_a_draft_declares_images_and_samplers(blur: Path, tune: Tune) -> None:
    blur.unlink()
    assert tune("new", blur.with_suffix(".cl")).status == 0
    arguments = yaml.safe_load(blur.read_text())["operation"]["arguments"]
    image = {"kind": "image", "dtype": "float32", "shape": ["height", "width"]}
    assert arguments[:3] == [
        {"name": "out", **image, "role": "out"},
        {"name": "photo", **image, "role": "in"},
        {"name": "edges", "kind": "sampler"},
    ]


@pytest.mark.parametrize(
    ("text", "becomes", "message"),
    [
        (
            "photo, kind: image", "photo, kind: image, type: 2d_array",
            "operation.arguments.1.shape: `type: 2d_array` has 3 axes, and perhaps one of channels; write `type: 2d`",
        ),
        ("width], role: in", "width, 3], role: in", "1.shape: 3: the last axis, of channels, is the number 1, 2 or 4"),
        ("float32, shape: [height, width], role: in", "float64, shape: [height, width], role: in", "1.dtype: float64"),
        ("role: in}", "role: in, read: normalized}", "1.read: float32 cannot be read as fractions; allowed: uint8, "),
        ("kind: sampler", "kind: sampler, address: mirror", "2.address: `address: mirror` needs `coordinates: norm"),
        ("kind: sampler", "kind: sampler, dtype: int32", "2.dtype: edges: `kind: sampler` has no `dtype`; remove"),
        ("kind: sampler", "dtype: int32, value: 1", "2.kind: edges: blur in blur.cl takes `sampler_t edges` here; "),
        ("photo, kind: image, ", "photo, ", "1.kind: photo: blur in blur.cl takes `image2d_t photo` here; "),
        ("role: in}", "role: scratch}", "1.role: photo: `kind: image` allows `role: in` or `role: out` or"),
        ("[opencl]", "[cuda]", "image is for opencl only, and the languages are cuda; write `languages: [opencl]`"),
    ],
)  # fmt: skip
def test_a_file_that_declares_an_image_wrongly_is_refused(blur: Path, text: str, becomes: str, message: str) -> None:
    with pytest.raises(SpaceError) as caught:
        catalog.load(str(edited(blur, text, becomes, ".yaml")))
    assert message in str(caught.value)
