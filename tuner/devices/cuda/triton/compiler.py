"""Compiles kernels in Triton to cubins, on any machine, with or without a GPU."""

import base64
import functools
import importlib.util
import json
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.devices import environment
from tuner.devices.builds.build import Build, Needs
from tuner.devices.builds.headers import Headers
from tuner.devices.cuda import architectures, ptx
from tuner.devices.cuda.common import CudaCompiler
from tuner.devices.cuda.triton import program
from tuner.errors import BuildError, DeviceError, ResourceError
from tuner.languages import PYTHON_LANGUAGES
from tuner.quoting import shown
from tuner.space.sources.source import Source

TITLE = PYTHON_LANGUAGES["triton"].title
TESTED = ("3.6.0",)  # versions; what a launch passes besides the arguments differs between versions
INTERPRETER = "TRITON_INTERPRET"  # variable with which `@triton.jit` makes functions that cannot be compiled
POINTERS = 2  # after the arguments: to scratch memory, and to that of the profiler
WARP = 32
OLDER_GPU = '\nif the kernel is for newer GPUs alone, write `requires: {compute_capability: ">=8.9"}` in the space file'
MOST_LOG = 4000  # characters of what the compiler printed
# Variables that change the code, besides those whose names begin with TRITON_.
_VARIABLES = ("DISABLE_LLVM_OPT", "LLVM_PASS_PLUGIN_PATH", "DISABLE_PTXAS_OPT", "NVPTX_ENABLE_DUMP")
_OF_NO_CODE = re.compile(r"TRITON_(?:HOME|\w*_DIR|PRINT_\w+|CACHE_\w+|ALWAYS_COMPILE|DUMP_PTXAS_LOG|REDIS_\w+)$")
_EMPTY = "import triton\n\n\n@triton.jit\ndef empty():\n    pass\n"
_MODULE = re.compile(r"^(?:import|from)\s+([A-Za-z_]\w*)", re.MULTILINE)


class TritonCompiler(CudaCompiler):
    """Compiles functions of `@triton.jit`, each in a process of its own."""

    @property
    def toolchain(self) -> str:
        return f"{TITLE} {version()}"

    def name(self) -> str:
        names = sorted(name for name in os.environ if name.startswith("TRITON_") and not _OF_NO_CODE.match(name))
        chosen = [f"{name}={os.environ[name]}" for name in (*names, *_VARIABLES) if name in os.environ]
        return " ".join([self.toolchain, *chosen])

    def check(self) -> None:
        source = Source(f"{json.dumps(_request_of_nothing())}\n{_EMPTY}", ("empty",), (), "triton")
        try:
            self._attempt(source)
        except BuildError as error:
            line = shown(str(error).partition("\n")[0])
            raise environment.trouble(environment.OTHER, f"Triton does not build an empty kernel: {line}") from None

    def _compile(self, source: Source) -> Build:
        return self._attempt(source)  # it distinguishes errors of the kernel from trouble by itself

    def compile(self, source: Source) -> Build:
        version()  # raises DeviceError
        if os.environ.get(INTERPRETER, "").lower() in ("1", "y", "yes", "true", "on"):
            raise DeviceError(f"{INTERPRETER} is set: Triton interprets all kernels then and compiles none; unset it")
        from tuner.devices.cuda.triton.service import SERVICE  # a launch from the cache starts no process

        request, text = _parts(source)
        limits = {
            "seconds": self.allowance and self.allowance.seconds,
            "memory": self.allowance and self.allowance.memory,
            "shared": architectures.shared_memory(self.architecture),
        }
        request |= {"capability": self._capability(), "text": text, **_places(source, text), **limits}
        is_here = self.forks and all(name == "triton" or name in sys.modules for name in request["modules"])
        reply = (program.started() or program.in_fork(request)) if is_here else SERVICE.ask(request)
        if reply and (needed := reply.get("shared")):
            most = limits["shared"]
            raise ResourceError(
                f"{source.kernel}: {needed} bytes of shared memory per block; {self.architecture} has at most {most}",
                "shared memory",
            )
        if reply and reply.get("signal") == signal.SIGXCPU:
            most = limits["seconds"]
            raise BuildError(
                f"{source.kernel}: its compilation takes more than {most} s of CPU time", "compile timeout"
            )
        return _build(source, reply)

    def _capability(self) -> int:
        """The architecture as Triton names it. Raises BuildError for one that it does not compile for."""
        number = int(re.sub(r"\D", "", self.architecture))
        given = f"sm_{number}{'a' if number >= 90 else ''}"
        if self.architecture != given:
            raise BuildError(f"{TITLE} compiles for {given}, not for {self.architecture}")
        return number


@functools.cache
def version() -> str:
    """Triton's version. Raises DeviceError if it is missing, or not one of those that are tested."""
    found = _version()
    if found is None:
        raise DeviceError(f"compiling kernels in {TITLE} needs Triton; pip install -e '.[triton]' in the checkout")
    if found not in TESTED:
        raise DeviceError(
            f"Triton {shown(found)} is installed, and tuner knows how to launch kernels of {' and '.join(TESTED)} "
            f"alone; pip install triton=={TESTED[-1]}"
        )
    return found


def forkable_modules() -> tuple[str, ...]:
    """Triton's modules, which may be imported before a fork; none if it cannot be used."""
    try:
        version()
    except DeviceError:
        return ()
    return program.MODULES


def _version() -> str | None:
    """The installed version, from the name of its .dist-info folder; None without one. Nothing is imported."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    folders = sorted(Path(spec.origin).parent.parent.glob("triton-*.dist-info"))
    if folders:
        return folders[-1].name.removesuffix(".dist-info").partition("-")[2]
    from importlib import metadata  # slow to import

    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def _request_of_nothing() -> dict[str, Any]:
    lists: dict[str, Any] = {name: [] for name in ("ones", "divisible")}
    return {"function": "empty", "signature": {}, "constants": {}, "options": {}, **lists}


def _parts(source: Source) -> tuple[dict[str, Any], str]:
    """What `python_steps` wrote: the request, and the text of the kernel."""
    head, _, text = source.text.partition("\n")
    request: dict[str, Any] = json.loads(head)
    return request, text


def _places(source: Source, text: str) -> dict[str, Any]:
    """Where the process finds what the kernel imports. `modules` may be imported before the kernel is compiled."""
    origin = source.origin
    root = str(origin.root) if origin else ""
    own = {path.stem for path in origin.root.iterdir()} if origin else set()
    return {
        "file": origin.file.name if origin else "kernel.py",
        "package": origin.package if origin else "",
        "root": root,
        "path": sys.path,
        "modules": [name for name in dict.fromkeys(_MODULE.findall(text)) if name not in own],
        "folder": str(paths.temporary()),
    }


def _build(source: Source, reply: dict[str, Any] | None) -> Build:
    """The build that a reply holds. Raises BuildError, DeviceError if Triton cannot be used, OSError and MemoryError if
    the machine is at fault."""
    if reply is None:
        raise environment.trouble(environment.OTHER, "the process in which Triton compiles has ended")
    if "missing" in reply:
        raise DeviceError(f"Triton cannot be imported: {shown(reply['missing'])}; install it anew")
    if reply.get("trouble") == "memory":
        raise MemoryError
    if "trouble" in reply:
        raise OSError(reply.get("number"), reply["trouble"])
    if "signal" in reply:
        raise BuildError(_crash(reply))
    if "error" in reply:
        hint = OLDER_GPU if "type fp8e4nv not supported" in reply["error"] else ""
        raise BuildError(f"{_with_reason_first(reply['error'])}{hint}")
    kernel, about, assembly = source.kernel, reply["metadata"], reply["ptx"]
    if size := about.get("global_scratch_size"):
        raise BuildError(
            f"{kernel} needs {size} bytes of scratch memory for each block, as descriptors of tensors that a kernel "
            "makes do; tuner passes none: use pointers"
        )
    if about.get("profile_scratch_size"):
        raise BuildError(f"{kernel} is compiled for Triton's profiler; unset the variable that asks for it")
    entries = {kernel: about["name"]}
    interface = ptx.interface(assembly, entries)
    sizes = interface.parameters.get(kernel, ())
    if len(sizes) != reply["passed"] + POINTERS:
        raise BuildError(
            f"{kernel} takes {len(sizes)} parameters for {reply['passed']} arguments; tuner expects 2 more"
        )
    return Build(
        base64.b64decode(reply["binary"]),
        {kernel: ptx.figures(reply["output"], about["name"], assembly)},
        entries={} if about["name"] == kernel else entries,
        interface=replace(interface, parameters={kernel: sizes[: reply["passed"]]}, dynamic=()),
        headers=Headers.of(dict.fromkeys(reply["files"], ())),
        needs={kernel: Needs(about["shared"], WARP * about["num_warps"], POINTERS)},
    )


def _with_reason_first(error: str) -> str:
    """Triton's message with its reason, which follows a caret below the lines of the function, before these: messages
    show the first lines."""
    code, caret, reason = error.rpartition("^\n")
    first, _, lines = code.partition("\n")
    return f"{first} {' '.join(reason.split())}\n{lines}{caret}".rstrip() if caret and reason.strip() else error


def _crash(reply: dict[str, Any]) -> str:
    """What is said of a compiler that crashed. The words for a kill are those that mean trouble of the machine."""
    number = reply["signal"]
    how = f"{signal.strsignal(number)} signal terminated Triton's compiler" if number else "Triton's compiler exited"
    return f"{how}\n{reply['output'][-MOST_LOG:]}".strip()
