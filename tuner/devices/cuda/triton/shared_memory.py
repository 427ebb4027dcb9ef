"""Ends a compilation by Triton early if a block needs too much shared memory: as `program`, a script without tuner."""

import contextlib
import tempfile
from typing import Any

Json = dict[str, Any]


class TooMuchSharedMemory(Exception):
    """A block of the kernel does not fit a GPU; `needed` are the bytes of shared memory that it needs."""

    def __init__(self, needed: int) -> None:
        self.needed = needed


def check(most: int | None, backend: Any, stages: Json, options: Any, language: Any, arch: int) -> None:
    """Have a compilation that needs over `most` bytes end with TooMuchSharedMemory before the stages that take long."""
    make = stages.get("llir")
    if make is None or most is None:
        return

    def checked(module: Any, metadata: Json) -> Any:
        with contextlib.suppress(AttributeError, TypeError, RuntimeError):  # the whole compilation tells it, too
            if (needed := needed_by(module, options, arch)) > most:
                raise TooMuchSharedMemory(needed)
        return make(module, metadata)

    stages["llir"] = checked


def needed_by(module: Any, options: Any, arch: int) -> int:
    """The bytes of shared memory that a module needs, by the first passes of the stage that follows, on a copy."""
    from triton._C.libtriton import ir, nvidia, passes
    from triton.backends.nvidia.compiler import get_ptx_version_from_options

    with tempfile.NamedTemporaryFile("w", suffix=".ttgir") as file:
        file.write(str(module))
        file.flush()
        copy = ir.parse_mlir_module(file.name, module.context)
    manager = ir.pass_manager(module.context)
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    version = get_ptx_version_from_options(options, arch)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, arch, version)
    manager.run(copy, "shared_memory")
    found: int = copy.get_int_attr("ttg.shared")
    return found
