"""Finds nvcc and the C++ compiler that it needs, and their versions."""

import functools
import itertools
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tuner.devices import environment
from tuner.devices.commands import process
from tuner.devices.cuda import toolkit_headers
from tuner.errors import DeviceError
from tuner.quoting import quoted

_TOOLKIT = Path("/usr/local/cuda")
_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")
_FOREIGN = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")  # options that are not in the space file
_HOST = re.compile(r"(?:-ccbin|--compiler-bindir)(?:=(.*))?")  # names nvcc's C++ compiler, or its folder


def path() -> str:
    """The path of nvcc: $NVCC, else the first in CUDA_HOME, CUDA_PATH, PATH, this interpreter's environment, a toolkit,
    and a wheel. Raises DeviceError if there is none."""
    name = os.environ.get("NVCC")
    if name:
        if (found := shutil.which(name)) is None:
            raise DeviceError(
                f"compiler: nvcc: NVCC is {quoted(name)}, which is no program; set NVCC to nvcc, or unset it"
            )
        return found
    folders = [Path(home, "bin") for home in map(os.environ.get, ("CUDA_HOME", "CUDA_PATH")) if home]
    others = [Path(sys.prefix, "bin"), _TOOLKIT / "bin", *(root / "cu13" / "bin" for root in toolkit_headers.roots())]
    places = [*map(str, folders), os.environ.get("PATH", os.defpath), *map(str, others)]
    found = shutil.which("nvcc", path=os.pathsep.join(places))
    if found is None:
        raise DeviceError(
            "compiler: nvcc: there is no nvcc; install the CUDA toolkit or `pip install nvidia-cuda-nvcc "
            "nvidia-cuda-cccl`, or set NVCC to its path; without `compiler:`, NVRTC compiles device code"
        )
    return found


def version(program: str) -> str:
    """The version of nvcc, as it reports it. Raises DeviceError if it reports none."""
    output, _ = _about(program, *_stamp(program))
    found = _VERSION.search(output)
    if found is None:
        raise DeviceError(f"compiler: nvcc: {quoted(program)} reports no version of nvcc; set NVCC to the path of nvcc")
    return found[1]


def host(options: Sequence[str]) -> str:
    """The first line of what nvcc's C++ compiler says of its version: the compiler that `options` or NVCC_CCBIN name,
    else gcc. Raises DeviceError if it is missing."""
    named = [match[1] or after for option, after in _pairs(options) if (match := _HOST.fullmatch(option))]
    name = named[-1] if named else os.environ.get("NVCC_CCBIN") or "gcc"
    program = shutil.which(os.path.join(name, "gcc") if os.path.isdir(name) else name)
    if program is None:
        raise DeviceError(
            f"compiler: nvcc: it needs a C++ compiler, and there is no {quoted(name)}; install g++, or set NVCC_CCBIN "
            "to a C++ compiler"
        )
    output, _ = _about(program, *_stamp(program))
    return (output.splitlines() or [program])[0]


def variables() -> Mapping[str, str]:
    """The environment variables of its processes: without those that would add options."""
    return {name: value for name, value in os.environ.items() if name not in _FOREIGN}


def _pairs(options: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Each option with the next one, which may be its value."""
    return itertools.zip_longest(options, options[1:], fillvalue="")


def _stamp(program: str) -> tuple[int, int]:
    """The size of a program and its time of modification. Raises EnvironmentTrouble if it has gone."""
    try:
        status = os.stat(program)
    except OSError as error:
        raise environment.of_error(error) from None
    return status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=16)
def _about(program: str, *_stamp: int) -> tuple[str, str]:
    """What a program says of its version, asked again if its file has changed."""
    return process.told([program, "--version"], variables())
