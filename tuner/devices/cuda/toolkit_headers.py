"""The headers of CUDA: in NVIDIA's wheels, in this interpreter's conda environment, and in an installed toolkit."""

import contextlib
import functools
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

# Files in a toolkit's folder of headers. They contain the versions of CUDA and of its C++ libraries.
_VERSIONS = ("cuda_runtime_api.h", "crt/common_functions.h", "cccl/cub/version.cuh", "cub/version.cuh")
_FOLDERS = ("cccl", "cooperative_groups", "crt", "cub", "cuda", "nv", "thrust")


def version_of(file: str) -> Sequence[str] | None:
    """The files that contain the version of a CUDA header; None if `file` is in no wheel and no toolkit's _FOLDERS.

    For a toolkit's header, these are the files of _VERSIONS. For a wheel's header, there are none, because the wheel's
    version is part of the compiler's name.
    """
    if file in _of_wheels():
        return ()
    of_toolkits = (versions_in(folder, file) for folder in toolkits())
    return next((versions for versions in of_toolkits if versions is not None), None)


def versions_in(folder: Path, file: str) -> Sequence[str] | None:
    """The files of _VERSIONS if `file` is in one of the _FOLDERS of a toolkit's folder of headers, else None."""
    if file.startswith(tuple(f"{folder}/{name}/" for name in _FOLDERS)):
        return [*filter(os.path.isfile, (str(folder / name) for name in _VERSIONS))]
    return None


@functools.cache
def _of_wheels() -> frozenset[str]:
    """The headers of the wheels whose versions are in the compiler's name."""
    found = set[str]()
    for root in roots():
        for wheel in ("runtime", "crt", "cccl"):
            for record in root.parent.glob(f"nvidia_cuda_{wheel}-*.dist-info/RECORD"):
                with contextlib.suppress(OSError):
                    lines = record.read_text(encoding="utf-8").splitlines()
                    found.update(str(root.parent / line.partition(",")[0]) for line in lines)
    return frozenset(found)


@functools.cache
def roots() -> tuple[Path, ...]:
    """The folders named `nvidia` into which NVIDIA's wheels unpack."""
    spec = importlib.util.find_spec("nvidia")
    return tuple(Path(root) for root in (spec.submodule_search_locations or [])) if spec else ()


@functools.cache
def wheel_version(wheel: str) -> str | None:
    """The version of the wheel nvidia-cuda-`wheel`, from the name of its .dist-info folder; None if it is not
    installed.

    A launch from the cache needs the version, and importing importlib.metadata would take longer than the rest of that
    launch.
    """
    folders = (path.name for root in roots() for path in root.parent.glob(f"nvidia_cuda_{wheel}-*.dist-info"))
    return next((name.removesuffix(".dist-info").rpartition("-")[2] for name in sorted(folders)), None)


@functools.cache
def toolkits() -> tuple[Path, ...]:
    """The folders of headers of this interpreter's conda environment and of an installed toolkit."""
    return (*Path(sys.prefix).glob("targets/*/include"), Path("/usr/local/cuda/include"))


@functools.cache
def include_options() -> tuple[str, ...]:
    """The compiler options for the folders of CUDA's headers (cuda_fp16.h, mma.h, cuda/barrier): in wheels, in this
    interpreter's conda environment, and in an installed toolkit."""
    found = [*(root / "cu13" / "include" for root in roots()), *toolkits()]
    folders = [folder for root in found for folder in (root, root / "cccl") if folder.is_dir()]
    return tuple(f"--include-path={folder}" for folder in folders)


@functools.cache
def last_options() -> tuple[str, ...]:
    """nvcc's options for the headers of wheels, as of nvidia-curand, that its own toolkit lacks."""
    folders = (root / "cu13" / "include" for root in roots())
    return tuple(f"-Xcompiler=-idirafter,{folder}" for folder in folders if folder.is_dir() and "," not in str(folder))
