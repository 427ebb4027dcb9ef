"""The program that compiles kernels with Triton, one request per line; with `shared_memory`, it alone imports Triton.

It runs as a script, without tuner; compile workers, which are forked with Triton imported, use `in_fork` alone. Each
kernel is compiled in a fork, so that a crash costs only that kernel, and what one file defines never reaches another.
Neither a GPU nor torch is needed.
"""

import base64
import contextlib
import functools
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

if __package__:
    from tuner.devices.cuda.triton import python_modules, shared_memory
else:  # a script, beside which it is
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    python_modules = importlib.import_module("python_modules")
    shared_memory = importlib.import_module("shared_memory")

IDLE_SECONDS = 120  # after which the program ends, since it holds some hundred MB
MOST_OUTPUT = 100_000  # characters of what a compilation prints
# What each build imports: ahead of the first one, once for all forks.
MODULES = (
    "triton",
    "triton.backends.compiler",
    "triton.compiler",
    "triton.compiler.code_generator",
    "triton.experimental.gluon",
    "triton.experimental.gluon.nvidia.hopper",
    "triton.experimental.gluon.nvidia.blackwell",
    "triton.experimental.gluon.amd.gfx1250",
    "triton.language.extra.libdevice",
)
KNOWN = ("name", "shared", "num_warps", "global_scratch_size", "profile_scratch_size")  # what a launch needs to know
# Errors of Triton whose texts say where in the kernel they are.
PLACED = ("CompilationError", "UnsupportedLanguageConstruct", "CompileTimeAssertionFailure")

Json = dict[str, Any]


def main() -> None:
    """Serve requests until the parent closes the pipe, or sends none for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt ends
    lift_limit(resource.RLIMIT_AS)  # a fork has its own
    lift_limit(resource.RLIMIT_CPU)
    with os.fdopen(os.dup(1), "w") as replies:
        os.dup2(2, 1)  # whatever a module prints
        missing: Json | None = None
        is_started = False
        while select.select([0], [], [], IDLE_SECONDS)[0]:
            line = read_line()
            if not line:
                return
            request: Json = json.loads(line)
            sys.path[:] = request["path"]
            if not is_started:
                missing, is_started = started(), True
            import_ahead(request["modules"])
            replies.write(json.dumps(missing or in_fork(request)) + "\n")
            replies.flush()


def read_line() -> bytes:
    """A line of the standard input, from which nothing is read ahead, so that `select` knows of the next one."""
    parts: list[bytes] = []
    while not parts or not parts[-1].endswith(b"\n"):
        part = os.read(0, 1 << 16)
        if not part:
            return b""
        parts.append(part)
    return b"".join(parts)


def started() -> Json | None:
    """Import Triton. Returns None, or the reply if that fails."""
    try:
        for name in MODULES:
            importlib.import_module(name)
    except Exception as error:
        return {"missing": f"{type(error).__name__}: {error}"}
    return None


def import_ahead(modules: Iterable[str]) -> None:
    """Import what kernels import, once for all forks."""
    for name in modules:
        with contextlib.suppress(BaseException):  # the fork meets the same error, and reports it
            importlib.import_module(name)


def in_fork(request: Json) -> Json:
    """The reply to a request, from a process of its own."""
    with tempfile.TemporaryDirectory(prefix="tuner-", dir=request["folder"]) as folder:
        answer, output = Path(folder, "answer"), Path(folder, "output")
        child = os.fork()
        if not child:
            serve_once(request, folder, answer, output)
        _, ended = os.waitpid(child, 0)
        printed = output.read_text(errors="replace")[-MOST_OUTPUT:] if output.exists() else ""
        if not ended and answer.exists():
            return {**json.loads(answer.read_text()), "output": printed}
        return {"signal": os.WTERMSIG(ended) if os.WIFSIGNALED(ended) else 0, "output": printed}


def serve_once(request: Json, folder: str, answer: Path, output: Path) -> None:
    """Write the reply to a file, and end this process."""
    status = 1
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        limit_time(request)
        answer.write_text(json.dumps(compiled(request, folder)))
        sys.stdout.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def lift_limit(which: int) -> None:
    """Lift a limit of this process as far as it may."""
    resource.setrlimit(which, (resource.getrlimit(which)[1],) * 2)


def limit_time(request: Json) -> None:
    """Limit the CPU time of this process to what a build may take."""
    if request["seconds"]:
        resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], resource.getrlimit(resource.RLIMIT_CPU)[1]))


def limit_memory(request: Json) -> None:
    """Limit the memory of this process and of its children to what it has, and what a build may take."""
    if request["memory"]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + request["memory"]
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def compiled(request: Json, folder: str) -> Json:
    """The binary and what is known of it, or the error, as JSON."""
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "cache")
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    os.environ["TRITON_DUMP_PTXAS_LOG"] = "1"
    tempfile.tempdir = folder  # for the files of ptxas, which a killed process leaves
    try:
        return build(request, folder)
    except MemoryError:
        return {"trouble": "memory"}
    except shared_memory.TooMuchSharedMemory as error:
        return {"shared": error.needed}
    except OSError as error:
        return {"trouble": error.strerror or str(error), "number": error.errno}
    except BaseException as error:
        return {"error": told(error, folder, request["file"])}


def told(error: BaseException, folder: str, file: str) -> str:
    """An error in words, with the user's file in place of its copy."""
    name, text = type(error).__name__, str(error)
    if name == "PTXASError":
        text = text.partition("Repro command")[0].strip()
    elif name in PLACED:
        text = f"{file}: {name}: {text}"
    else:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(folder)]
        text = f"{file}:{frames[-1].lineno}: {name}: {text}" if frames else f"{name}: {text}"
    cause = error.__cause__
    while cause is not None:
        text, cause = f"{text}\n{type(cause).__name__}: {cause}", cause.__cause__
    return text.replace(f"{folder}/", "")


def build(request: Json, folder: str) -> Json:
    """Compile a kernel."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime.jit import JITFunction

    lift_limit(resource.RLIMIT_AS)  # a module beside the kernel may ask a GPU's driver, which reserves many addresses
    function = getattr(python_modules.loaded(request, folder), request["function"])
    limit_memory(request)
    while not isinstance(function, JITFunction) and hasattr(function, "fn"):
        function = function.fn
    if not isinstance(function, JITFunction):
        return {"error": f"{request['function']} is a {type(function).__name__}, not a function of @triton.jit"}
    names = function.arg_names
    constants = {name: value_of(value) for name, value in request["constants"].items()}
    constants |= dict.fromkeys(request["ones"], 1)
    for parameter in function.params:
        if parameter.name not in constants and parameter.name not in request["signature"]:
            constants[parameter.name] = parameter.default
    signature = {name: "constexpr" if name in constants else request["signature"][name] for name in names}
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in request["divisible"]}
    source = ASTSource(function, signature, constants, attributes)
    # For the key of a build in its own cache, which is empty here, Triton reads 400 MB: its library.
    triton.runtime.cache.triton_key = lambda: triton.__version__
    triton.knobs.runtime.add_stages_inspection_hook = functools.partial(shared_memory.check, request["shared"])
    made = triton.compile(source, target=GPUTarget("cuda", request["capability"], 32), options=request["options"])
    about = made.metadata._asdict()
    own = os.path.join(folder, os.path.basename(request["file"]))
    return {
        "binary": base64.b64encode(made.asm["cubin"]).decode(),
        "ptx": made.asm["ptx"],
        "metadata": {name: about[name] for name in KNOWN if name in about},
        "passed": sum(kind != "constexpr" for kind in signature.values()),
        "files": sorted(
            python_modules.files_of(function, os.path.dirname(os.path.abspath(triton.__file__)), set()) - {own}
        ),
    }


def value_of(value: Any) -> Any:
    """The value of a constant; a type has its own form."""
    if not isinstance(value, dict):
        return value
    from triton.language import str_to_ty

    return str_to_ty(value["dtype"], None)


if __name__ == "__main__":
    main()
