"""The program that compiles kernels with Triton, one request per line; no other module imports Triton.

It runs as a script, without tuner; compile workers, which are forked with Triton imported, use `in_fork` alone. Each
kernel is compiled in a fork, so that a crash costs only that kernel, and what one file defines never reaches another.
Neither a GPU nor torch is needed.
"""

import ast
import base64
import contextlib
import functools
import importlib
import importlib.util
import json
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

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
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU):  # a fork has its own
        resource.setrlimit(limit, (resource.getrlimit(limit)[1],) * 2)
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
        limit(request)
        answer.write_text(json.dumps(compiled(request, folder)))
        sys.stdout.flush()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def limit(request: Json) -> None:
    """Limit the memory and the CPU time of this process to what a build may take."""
    if request["memory"]:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + request["memory"]
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if request["seconds"]:
        resource.setrlimit(resource.RLIMIT_CPU, (request["seconds"], resource.getrlimit(resource.RLIMIT_CPU)[1]))


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
    except TooMuchSharedMemory as error:
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

    function = getattr(loaded(request, folder), request["function"])
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
    triton.knobs.runtime.add_stages_inspection_hook = functools.partial(check_shared_memory, request["shared"])
    made = triton.compile(source, target=GPUTarget("cuda", request["capability"], 32), options=request["options"])
    about = made.metadata._asdict()
    own = os.path.join(folder, os.path.basename(request["file"]))
    return {
        "binary": base64.b64encode(made.asm["cubin"]).decode(),
        "ptx": made.asm["ptx"],
        "metadata": {name: about[name] for name in KNOWN if name in about},
        "passed": sum(kind != "constexpr" for kind in signature.values()),
        "files": sorted(files_of(function, set()) - {own}),
    }


class TooMuchSharedMemory(Exception):
    """A block of the kernel does not fit a GPU; `needed` are the bytes of shared memory that it needs."""

    def __init__(self, needed: int) -> None:
        self.needed = needed


def check_shared_memory(most: int | None, backend: Any, stages: Json, options: Any, language: Any, arch: int) -> None:
    """Have a compilation that needs over `most` bytes end with TooMuchSharedMemory before the stages that take long."""
    make = stages.get("llir")
    if make is None or most is None:
        return

    def checked(module: Any, metadata: Json) -> Any:
        with contextlib.suppress(AttributeError, TypeError, RuntimeError):  # the whole compilation tells it, too
            if (needed := shared_memory(module, options, arch)) > most:
                raise TooMuchSharedMemory(needed)
        return make(module, metadata)

    stages["llir"] = checked


def shared_memory(module: Any, options: Any, arch: int) -> int:
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


def loaded(request: Json, folder: str) -> ModuleType:
    """The module of the kernel. Where torch is not installed, something stands in for it."""
    try:
        return found(request, folder)
    except ModuleNotFoundError as error:
        stand_in = executed("stand_in", Path(__file__).with_name("stand_in.py"))
        if error.name is None or error.name.partition(".")[0] != stand_in.NAME:
            raise
        stand_in.install()
        try:
            return found(request, folder)
        except Exception:
            raise error from None


def found(request: Json, folder: str) -> ModuleType:
    """The module of the kernel: the part of its file that it needs, under the file's own name and package.

    First without running the files of the packages around it, which often import a library and torch; then not
    those of other packages below the same folder either; then all.
    """
    path, package, root = Path(folder, os.path.basename(request["file"])), request["package"], request["root"]
    path.write_text(request["text"])
    name = f"{package}.{path.stem}" if package else path.stem
    if root:
        sys.path.insert(0, root)
    if not package:
        return executed(name, path)
    before, finder = {*sys.modules}, Packages(root)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: enter(package, root),
        lambda: sys.meta_path.insert(0, finder),
        lambda: importlib.import_module(package),
    )
    first: Exception | None = None
    for way in ways:
        try:
            way()
            return executed(name, path)
        except Exception as error:  # the kernel may need what its packages do when they are imported
            first = first or error
            for each in {*sys.modules} - before:
                del sys.modules[each]
        finally:
            if finder in sys.meta_path:
                sys.meta_path.remove(finder)
    assert first is not None
    raise first


class Packages(MetaPathFinder, Loader):
    """Finds the packages below a folder, and runs none of their files."""

    def __init__(self, root: str) -> None:
        self.root = root

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """A package below the folder."""
        place = os.path.join(self.root, *name.split("."))
        if not os.path.isfile(os.path.join(place, "__init__.py")):
            return None
        spec = ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [place]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Define what the file says in literals."""
        vars(module).update(literals(Path(module.__path__[0], "__init__.py")))


def enter(package: str, root: str) -> None:
    """Define a package and those around it without running their files."""
    names = package.split(".")
    for count in range(1, len(names) + 1):
        name = ".".join(names[:count])
        if name not in sys.modules:
            module = sys.modules[name] = ModuleType(name)
            module.__path__ = [os.path.join(root, *names[:count])]
            vars(module).update(literals(Path(*module.__path__, "__init__.py")))


def literals(file: Path) -> Json:
    """The numbers and texts at the top level of a file, such as __version__."""
    found: Json = {}
    with contextlib.suppress(OSError, SyntaxError, ValueError):
        for node in ast.parse(file.read_text()).body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=value)):
                    found[name] = value
    return found


def executed(name: str, path: Path) -> ModuleType:
    """The module of a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def value_of(value: Any) -> Any:
    """The value of a constant; a type has its own form."""
    if not isinstance(value, dict):
        return value
    from triton.language import str_to_ty

    return str_to_ty(value["dtype"], None)


def files_of(function: Any, visited: set[Any]) -> set[str]:
    """The files of a kernel and of the functions that it reaches, without those of Triton."""
    import triton

    own = os.path.dirname(os.path.abspath(triton.__file__))
    file = os.path.abspath(function.fn.__code__.co_filename)
    if function in visited or file.startswith(own + os.sep):
        return set()
    visited.add(function)
    names, scope = function.fn.__code__.co_names, function.fn.__globals__
    reached = [scope[name] for name in names if name in scope]
    reached += [getattr(module, name, None) for module in reached if isinstance(module, ModuleType) for name in names]
    found = {file}
    for each in reached:
        if type(each) is type(function):
            found |= files_of(each, visited)
    return found


if __name__ == "__main__":
    main()
