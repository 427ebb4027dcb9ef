"""Files for vLLM have the names that its readers ask for, and the entries that they take."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from helpers.processes import Tune
from helpers.records import A100, H200, H200_NVL, imported, record
from tuner.catalog import catalog
from tuner.space.sources import rendering
from tuner.store.record import Record
from tuner.store.store import Store

KERNEL = """\
import triton
import triton.language as tl


@triton.jit
def NAME(a_ptr, WEIGHTS, c_ptr, N, K, group_n: tl.constexpr, group_k: tl.constexpr, BLOCK_SIZE_M: tl.constexpr,
         BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr, GROUP_SIZE_M: tl.constexpr):
    i = tl.program_id(0) * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    tl.store(c_ptr + i * N, tl.load(a_ptr + i * K) * tl.load(WEIGHTS).to(tl.float32))
"""
SPACE = """\
title: A kernel with the name and the parameters of one of vLLM
operation:
  sizes: {M: null, N: null, K: 4096, E: 8}
  options: {group_n: 0, group_k: 0}
  types: {weight: [bfloat16, float8_e4m3fn, int8]}
  arguments:
    - {name: a_ptr, dtype: bfloat16, shape: [M, K], role: in}
    - {name: WEIGHTS, dtype: weight, shape: [E, N, K], role: in}
    - {name: c_ptr, dtype: bfloat16, shape: [M, N], role: out}
    - {name: N, dtype: int32}
    - {name: K, dtype: int32}
  reference: none
kernel: NAME
source: mine.py
grid: ["ceil_div(M, BLOCK_SIZE_M)"]
parameters:
  BLOCK_SIZE_M: [16, 32, 64]
  BLOCK_SIZE_N: [64, 128]
  BLOCK_SIZE_K: [64]
  GROUP_SIZE_M: [1, 8]
  num_warps: [4, 8]
"""


def written(folder: Path, name: str = "fused_moe_kernel", weights: str = "b_ptr", space: str = SPACE) -> Path:
    """A space file of a kernel with this name, whose weights are the argument of that name."""
    for suffix, text in ((".py", KERNEL), (".yaml", space)):
        (folder / f"mine{suffix}").write_text(text.replace("NAME", name).replace("WEIGHTS", weights))
    return folder / "mine.yaml"


def config(block: int) -> dict[str, int]:
    return {"BLOCK_SIZE_M": block, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 4}


def tuned(file: Path, rows: int, block: int, device: str = H200, **changes: Any) -> Record:
    space = catalog.load(str(file))
    about = {
        "sizes": {"M": rows, "N": 7168, "K": 4096, "E": 8},
        "options": {"group_n": 0, "group_k": 0},
        "types": {"weight": "bfloat16"},
        "signature": rendering.signature(space),
        "code": rendering.code(space),
    }
    architecture = "sm_80" if device == A100 else "sm_90a"
    return record(device=device, kind="cuda", architecture=architecture, config=config(block), **{**about, **changes})


def put(file: Path, results: Path, *records: Record) -> None:
    Store(catalog.load(str(file)).name, results).put(records)


def for_experts(
    folder: Path, device: str, experts: int, columns: int, dtype: str | None, block: list[int] | None
) -> Mapping[int, Any] | None:
    """What vLLM finds for its mixture of experts: the entries of a file by number of rows; None without a file."""
    words = device.replace(" ", "_")
    words = "NVIDIA_H200" if "H200" in words.split("_") else words
    name = f"E={experts},N={columns},device_name={words}"
    name += f",dtype={dtype}" if dtype else ""
    name += f",block_shape={block}".replace(" ", "") if block and all(block) else ""
    file = folder / f"{name}.json"
    if not file.exists():
        return None
    entries = json.loads(file.read_text())
    entries.pop("triton_version", None)
    return {int(rows): entry for rows, entry in entries.items()}


def for_blocks(folder: Path, device: str, columns: int, depth: int, block: tuple[int, int]) -> Mapping[int, Any] | None:
    """What vLLM finds for its product of FP8 numbers in blocks with scales; it allows no other members."""
    words = device.replace(" ", "_")
    file = folder / (
        f"N={columns},K={depth},device_name={words},dtype=fp8_w8a8,block_shape=[{block[0]},{block[1]}].json"
    )
    return {int(rows): entry for rows, entry in json.loads(file.read_text()).items()} if file.exists() else None


def nearest(entries: Mapping[int, Any], rows: int) -> Any:
    """The entry that vLLM takes."""
    return entries[min(entries, key=lambda each: abs(each - rows))]


def test_vllm_finds_what_was_tuned_for_experts(tune: Tune, tmp_path: Path) -> None:
    file, results, out = written(tmp_path), tmp_path / "results", tmp_path / "out"
    scaled: dict[str, Any] = {"types": {"weight": "float8_e4m3fn"}, "options": {"group_n": 128, "group_k": 128}}
    put(
        file, results,
        tuned(file, 1, 16), tuned(file, 64, 32), tuned(file, 4096, 64),
        imported(tuned(file, 16, 64)), tuned(file, 2, 64, code="an earlier one", signature="an earlier one"),
        tuned(file, 8, 64, sizes={"M": 8, "N": 3584, "K": 4096, "E": 8}),
        tuned(file, 64, 16, A100), tuned(file, 32, 32, H200_NVL), tuned(file, 64, 64, **scaled),
    )  # fmt: skip
    request = "export", file, "M=64,N=7168", "--to", "vllm", "--results", results, "--output", out
    done = tune(*request, "--device", H200, "--json")
    assert done.status == 0, done.err
    assert done.json["rows"] == [1, 64, 4096]
    assert "left out, as only imported or unverified records are there: M = 2, 16" in done.err
    entries = for_experts(out, H200, 8, 7168, None, None)
    assert entries == {1: config(16), 64: config(32), 4096: config(64)}
    assert nearest(entries, 100) == config(32)
    assert for_experts(out, A100, 8, 7168, None, None) is None
    assert tune(*request, "--device", A100).status == 0
    assert for_experts(out, A100, 8, 7168, None, None) == {64: config(16)}
    assert tune(*request, "--device", H200_NVL).status == 0
    assert for_experts(out, H200_NVL, 8, 7168, None, None) == {32: config(32)}
    of_type = "--type", "weight=float8_e4m3fn", "--set", "group_n=128", "--set", "group_k=128"
    assert tune(*request, "--device", H200, *of_type).status == 0
    assert for_experts(out, H200, 8, 7168, "fp8_w8a8", [128, 128]) == {64: config(64)}


@pytest.mark.parametrize("name", ["_w8a8_triton_block_scaled_mm", "_w8a8_block_fp8_matmul"])
def test_vllm_finds_what_was_tuned_for_blocks_of_fp8(name: str, tune: Tune, tmp_path: Path) -> None:
    file, results = written(tmp_path, name, "B"), tmp_path / "results"
    scaled: dict[str, Any] = {"types": {"weight": "float8_e4m3fn"}, "options": {"group_n": 128, "group_k": 64}}
    put(file, results, *(tuned(file, rows, block, **scaled) for rows, block in ((1, 16), (512, 64))))
    request = "export", file, "M=1,N=7168", "--to", "vllm", "--results", results, "--device", H200, "--output", tmp_path
    of_type = "--type", "weight=float8_e4m3fn", "--set", "group_n=128", "--set", "group_k=64"
    done = tune(*request, *of_type)
    assert done.status == 0, done.err
    assert for_blocks(tmp_path, H200, 7168, 4096, (128, 64)) == {1: config(16), 512: config(64)}
    refused = tune(*request)
    assert (refused.status, "declare `group_n` and `group_k` as options" in refused.err) == (2, True)


REFUSED = {
    "another kernel": (("NAME", "mine"), (), "is none of vLLM's Triton kernels that read such files"),
    "a size with another name": (("E: 8", "EXPERTS: 8"), (), "the space has no size E"),
    "a parameter of its own": (("num_warps: [4", "num_ctas: [1"), (), "the parameter num_ctas is none of these"),
    "a type without a file": (("NAME", "fused_moe_kernel"), ("--type", "weight=int8"), "the weights `b_ptr` are int8"),
    "nothing tuned": (("NAME", "fused_moe_kernel"), ("--set", "group_n=64"), "tune it at the numbers of rows M"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_vllm_would_not_read_is_refused_with_one_message(case: str, tune: Tune, tmp_path: Path) -> None:
    (old, new), words, message = REFUSED[case]
    name = new if old == "NAME" else "fused_moe_kernel"
    space = SPACE if old == "NAME" else SPACE.replace(old, new)
    space = space.replace("[E,", "[EXPERTS,") if "EXPERTS" in new else space
    file, results = written(tmp_path, name, space=space), tmp_path / "results"
    put(file, results, tuned(file, 64, 16, sizes={"M": 64, "N": 1, "K": 4096, "E": 8}))
    done = tune("export", file, "M=64,N=7168", "--to", "vllm", "--results", results, "--device", "H200", *words)
    assert (done.status, len(done.err.splitlines()), message in done.err) == (2, 1, True), done.err
