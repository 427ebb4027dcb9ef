"""`run_kernel` with the signature and the results of Kernel Tuner 1.5."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tuner import devices, paths
from tuner.devices.built import build
from tuner.devices.program import Program
from tuner.door import spaces
from tuner.door.calls import arguments as call_arguments
from tuner.door.calls.arguments import Array, ScriptArgument
from tuner.door.calls.call import Call
from tuner.door.calls.device_names import advised, device_name
from tuner.space.instance import checked
from tuner.space.python import written_files


def run_kernel(
    kernel_name: str,
    kernel_source: Any,
    problem_size: Any,
    arguments: Sequence[Any],
    params: Mapping[str, Any],
    grid_div_x: Any = None,
    grid_div_y: Any = None,
    grid_div_z: Any = None,
    lang: str | None = None,
    device: int = 0,
    platform: int = 0,
    smem_args: Mapping[str, Any] | None = None,
    cmem_args: Mapping[str, Any] | None = None,
    texmem_args: Mapping[str, Any] | None = None,
    compiler: str | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: Mapping[str, Any] | None = None,
    block_size_names: Sequence[str] | None = None,
    quiet: bool = False,
    log: Any = None,
) -> list[Any]:
    """Compile and run one configuration once, as `kernel_tuner.run_kernel` does, in this process.

    The arguments are those of Kernel Tuner 1.5, with the same meaning. Returns the contents of all arguments after the
    run: new arrays, and numbers as they were passed.

    Raises RequestError for arguments that are wrong or not supported, TrialError if the kernel does not compile or
    launch, and DeviceError if the device cannot be used.
    """
    call = Call(
        kernel_name, kernel_source, problem_size, arguments, {name: [value] for name, value in params.items()},
        (grid_div_x, grid_div_y, grid_div_z), block_size_names, lang, device, platform, smem_args, cmem_args,
        texmem_args, compiler, compiler_options, defines,
    )  # fmt: skip
    passed = call_arguments.passed(call)
    with tempfile.TemporaryDirectory(prefix="tuner-", dir=paths.temporary()) as folder:
        name = f"scripts/{written_files.stem(kernel_name)}"
        space = spaces.space(call, passed, {}, None, 0.0, (), (), Path(folder), name)[1]
        space = replace(space, returns_time=False)  # nobody asks for it, so a function in C may return 0
        with advised(call):
            outputs = _outputs(device_name(call), space, passed)
    own = [outputs.get(each.name, each.value) for each in passed[: len(call.arguments)]]
    return [_shaped(output, given) for output, given in zip(own, call.arguments, strict=True)]


def _outputs(device_id: str, space: Any, passed: Sequence[ScriptArgument]) -> dict[str, Array]:
    """The contents of the arrays after a run of the only configuration, by name."""
    with contextlib.closing(devices.open_device(device_id)) as device:
        op = space.operation
        scope = op.scope(dict(op.sizes), op.options, device.language, device.limits, {})
        config = {name: values[0] for name, values in space.parameters.items()}
        program = Program(device, build(device.compiler, checked(space, config, scope)))
        arrays = {each.name: each.value for each in passed if isinstance(each.value, np.ndarray)}
        buffers = {name: device.upload(array) for name, array in arrays.items()}
        launch = device.bind(program.work(), [buffers[argument.name].handle for argument in op.arrays])
        launch()
        device.synchronize()
        outputs = {name: np.empty_like(array) for name, array in arrays.items()}
        for name, output in outputs.items():
            device.read(buffers[name].handle, output)
        return outputs


def _shaped(output: Any, given: Any) -> Any:
    """The output in the type, shape and order of what was passed: bytes become what they were."""
    if isinstance(output, np.ndarray) and isinstance(given, np.ndarray):
        flat = output.reshape(-1).view(given.dtype)
        return flat.reshape(given.shape, order="F" if call_arguments.is_fortran(given) else "C")
    return output
