"""Export of the best configurations at all numbers of rows, in the files that vLLM reads for two of its Triton kernels.

vLLM looks for a file by a name that tells the problem and the device, and takes the configuration of the nearest number
of rows. Read from vllm/model_executor/layers/fused_moe/fused_moe.py and quantization/utils/fp8_utils.py, November 2025.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.target import Problem, Target, choose_target
from tuner.quoting import shown
from tuner.space.config import Config
from tuner.space.texts import size_text
from tuner.store.store import Store

ROWS = "M"  # the size that the entries of a file differ in
REQUIRED = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M")
ALLOWED = (*REQUIRED, "SPLIT_K", "num_warps", "num_stages")
_DTYPES = {"float16": "", "bfloat16": "", "float32": "float32", "float8_e4m3fn": "fp8_w8a8"}  # vLLM's names


@dataclass(frozen=True)
class _Kernel:
    """A kernel of vLLM: the sizes in the names of its files, its array of weights, and how a file is named."""

    sizes: tuple[str, ...]
    weights: str
    file: Callable[[Problem, str, str], str]


def _experts_file(problem: Problem, device: str, dtype: str) -> str:
    """`E=8,N=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json`."""
    name = "NVIDIA_H200" if "H200" in device.split("_") else device  # one file serves all boards with this chip
    about = f"E={problem.sizes['E']},N={problem.sizes['N']},device_name={name}"
    block = _block(problem)
    return about + (f",dtype={dtype}" if dtype else "") + (f",block_shape={block}" if block else "") + ".json"


def _blocks_file(problem: Problem, device: str, dtype: str) -> str:
    """`N=4096,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json`."""
    block = _block(problem)
    if dtype != "fp8_w8a8" or not block:
        raise RequestError(
            f"{problem.space.name}: vLLM reads files of this kernel for weights in float8_e4m3fn with blocks: declare "
            "`group_n` and `group_k` as options, such as 128"
        )
    sizes = f"N={problem.sizes['N']},K={problem.sizes['K']}"
    return f"{sizes},device_name={device},dtype={dtype},block_shape={block}.json"


KERNELS: Mapping[str, _Kernel] = {
    "fused_moe_kernel": _Kernel(("E", "N"), "b_ptr", _experts_file),
    "_w8a8_triton_block_scaled_mm": _Kernel(("N", "K"), "B", _blocks_file),
    "_w8a8_block_fp8_matmul": _Kernel(("N", "K"), "B", _blocks_file),  # its name until 2025
}


def export(request: ExportRequest) -> Export:
    """Write the file, into the folder `output`.

    Raises RequestError if the kernel is none of KERNELS, or lacks what its file tells, or no number of rows is tuned.
    """
    problem = request.problem
    kernel = _kernel(problem)
    target = choose_target(problem, request.device, kinds=("cuda",))
    name = kernel.file(problem, target.device.name.replace(" ", "_"), _dtype(problem, kernel))
    best, left_out = _best(target)
    if not best:
        others = size_text({size: value for size, value in problem.sizes.items() if size != ROWS})
        raise RequestError(
            f"{problem.space.name}: nothing is tuned on {shown(target.device.name or target.device.architecture)} at "
            f"{others}; tune it at the numbers of rows M that matter"
        )
    text = json.dumps({str(rows): config for rows, config in sorted(best.items())}, indent=4) + "\n"
    notes = (f"left out, as only imported or unverified records are there: M = {left_out}",) if left_out else ()
    summary = {"device": target.device.name, "rows": sorted(best)}
    return Export([write((request.output or Path()) / name, text)], summary, notes)


def _kernel(problem: Problem) -> _Kernel:
    """The kernel of vLLM that a space is of. Raises RequestError if it is none."""
    space = problem.space
    kernel = KERNELS.get(space.kernels)
    if kernel is None or space.python_language is None:
        raise RequestError(
            f"--to vllm: {space.name} is none of vLLM's Triton kernels that read such files: {', '.join(KERNELS)}"
        )
    missing = [size for size in (ROWS, *kernel.sizes) if size not in problem.sizes]
    if missing:
        raise RequestError(
            f"{space.name}: vLLM's file names have {' and '.join(kernel.sizes)}, and entries are numbers of rows M; "
            f"the space has no size {missing[0]}: name its sizes so"
        )
    names = [*space.parameters]
    odd = [name for name in names if name not in ALLOWED] or [name for name in REQUIRED if name not in names]
    if odd:
        raise RequestError(
            f"{space.name}: vLLM's entries have {', '.join(REQUIRED)}, and may have {', '.join(ALLOWED[4:])}; the "
            f"parameter {shown(odd[0])} is {'none of these' if odd[0] in names else 'missing'}"
        )
    return kernel


def _dtype(problem: Problem, kernel: _Kernel) -> str:
    """vLLM's word for the type of the weights; empty for 16-bit floats."""
    arguments = {argument.name: argument for argument in problem.space.operation.arguments}
    argument = arguments.get(kernel.weights)
    dtype = "" if argument is None else problem.types.get(argument.dtype, argument.dtype)
    if dtype not in _DTYPES:
        raise RequestError(
            f"{problem.space.name}: the weights `{kernel.weights}` are {shown(dtype) or 'missing'}; files are written "
            f"for {', '.join(_DTYPES)}"
        )
    return _DTYPES[dtype]


def _block(problem: Problem) -> str:
    """The shape of the blocks that share a scale, as in `[128,128]`; empty if there are none."""
    names = {**problem.options, **problem.sizes}
    shape = [int(names.get(name, 0)) for name in ("group_n", "group_k")]
    return f"[{shape[0]},{shape[1]}]" if all(shape) else ""


def _best(target: Target) -> tuple[dict[int, Config], str]:
    """The configuration of each number of rows that was tuned and verified, and the other numbers, in words."""
    problem, device = target.problem, target.device
    wanted = {size: value for size, value in problem.sizes.items() if size != ROWS}
    rows = {
        record.sizes[ROWS]
        for record in Store.of(problem.space, problem.results).records
        if (record.kind, record.device) == (device.kind, device.name)
        and {size: value for size, value in record.sizes.items() if size != ROWS} == wanted
    }
    found: dict[int, Config] = {}
    left_out = []
    for number in sorted(rows):
        best = Target.of(replace(problem, sizes={**problem.sizes, ROWS: number}), device).best
        if best.is_exact and best.record is not None and best.record.is_verified:
            found[number] = dict(best.config)
        else:
            left_out.append(str(number))
    return found, ", ".join(left_out)
