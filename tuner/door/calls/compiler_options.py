"""The compiler options of a call of Kernel Tuner."""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
from pathlib import Path

from tuner.devices.host import compiler
from tuner.door.calls import macros
from tuner.door.calls.call import Call
from tuner.errors import RequestError
from tuner.quoting import quoted

_INCLUDES = ("-I", "--include-path=")
# Options that tuner itself sets for the device and the run.
_OWN = re.compile(r"-lineinfo|--generate-line-info")
# Options of nvcc that take a value, which may be the next option: for host code, which a kernel has none of, for
# architectures, which tuner sets, and for nvcc's own work.
_WITH_VALUE = re.compile(
    r"(-O|-Xcompiler|-ccbin|--compiler-(?:options|bindir)|-Xlinker|--linker-options|-Xcudafe|-t|--threads|-?-cudart"
    r"|-?-default-stream|-arch|-code|--gpu-(?:architecture|code)|-gencode|--generate-code)(=.*)?"
)
_OF_PTXAS = ("-Xptxas", "--ptxas-options")  # their value is for the assembler, which NVRTC has, too
# Others of nvcc and of host compilers. NVRTC knows none of them.
_OF_HOST = re.compile(
    r"-O[0-3]|--optimize=.*|-m64|-W[a-z][\w,=+-]*|-?-expt-relaxed-constexpr|-?-forward-unknown-(?:opts|to-host)\S*"
    r"|-?-keep|-v|--verbose|-?-res(?:ource)?-usage|-src-in-ptx|--source-in-ptx|-fopenmp|-fPIC|-march=.*|-L.*|-l\w+"
)
_PLAIN = {"x86_64": ("-march=x86-64",), "aarch64": ("-march=armv8-a",)}  # compilers' own choice, by processor


def of(call: Call) -> tuple[list[str], list[str]]:
    """The options of a space, and the folders of headers that a call names. Raises RequestError."""
    _check_compiler(call)
    options, folders = list[str](), list[str]()
    whole = [str(each) for each in call.compiler_options or ()]
    given, is_value = list[str](), False
    for each in whole:
        given += [each] if is_value or each.startswith(_INCLUDES) else each.split()
        is_value = not is_value and bool(given) and _takes_next(call, given[-1])
    position = 0
    while position < len(given):
        option, position = given[position], position + 1
        if call.language == "cuda" and (taken := _WITH_VALUE.fullmatch(option)):
            position += taken[2] is None
            continue
        if call.language == "cuda" and option in _OF_PTXAS:
            options += [option, *given[position : position + 1]]
            position += 1
            continue
        if call.language == "cuda" and _OF_HOST.fullmatch(option):
            continue
        prefix = next((each for each in _INCLUDES if option.startswith(each)), None)
        if prefix is not None:
            folder = option[len(prefix) :].strip()
            if not folder and position < len(given):
                folder, position = given[position].strip(), position + 1
            folders.append(str(Path(folder).absolute()))
        elif not _OWN.fullmatch(option):
            options.append(option)
    if '#include "' in call.text or "# include" in call.text:  # relative to the source, or to the script's own folder
        folders += [str(call.file.parent)] if call.file is not None else []
        folders.append(str(Path.cwd()))
    cpp = ["-xc++"] if call.language == "c" else []
    own = [folder for folder in [_of_cupy(call)] if folder is not None]
    existing = [folder for folder in dict.fromkeys([*folders, *map(str, own)]) if Path(folder).is_dir()]  # as compilers
    return [*cpp, *options, *macros.options(call)], existing


def _takes_next(call: Call, option: str) -> bool:
    """Whether the value of an option is the next element of a list of options, blanks and all."""
    taken = _WITH_VALUE.fullmatch(option) if call.language == "cuda" else None
    return option in (*_INCLUDES, *_OF_PTXAS) or (taken is not None and taken[2] is None)


def added(call: Call) -> tuple[str, ...]:
    """Options that come before those of a call, so that these alone optimise, as in Kernel Tuner, which passes none of
    its own: otherwise another configuration may be the best."""
    return ("-O0", *_PLAIN.get(platform.machine(), ())) if call.language == "c" else ()


def is_unoptimised(call: Call) -> bool:
    """Whether a call in C asks for no optimisation."""
    return call.language == "c" and not any(str(each).startswith("-O") for each in call.compiler_options or ())


def _check_compiler(call: Call) -> None:
    """Raise RequestError if a call names another compiler than that which compiles C here. g++ and gcc are one."""
    own = compiler.find_command()
    if call.compiler is None or own is None or _family(call.compiler) == _family(own[0]):
        return
    raise RequestError(
        f"compiler {quoted(call.compiler)}: C is compiled by {own[0]} here; leave it out, or set the environment "
        "variable CC to it"
    )


def _family(name: str) -> Path:
    """The file of a compiler's command, the same for C and C++."""
    file = Path(shutil.which(name) or name).resolve()
    return file.with_name(file.name.replace("clang++", "clang").replace("g++", "gcc"))


def of_library(call: Call) -> list[str]:
    """The options that name the folders of the C++ library that CuPy comes with, which CuPy's compiler searches first.

    They are no folders of a space, because these headers are not the user's: their text is not joined to a source.
    """
    own = _of_cupy(call)
    folders = [] if own is None else [own / "cupy" / "_cccl" / name for name in ("cub", "thrust", "libcudacxx")]
    return [f"-I{folder}" for folder in folders if folder.is_dir()]


def _of_cupy(call: Call) -> Path | None:
    """The folder of CuPy's headers, if the call is compiled by CuPy in Kernel Tuner, and CuPy is installed.

    CuPy is not imported: it may have no driver here.
    """
    if (call.lang or "").upper() != "CUPY":
        return None
    try:
        found = importlib.util.find_spec("cupy")
    except (ImportError, ValueError):
        return None
    folders = (found and found.submodule_search_locations) or ()
    return next((own for folder in folders if (own := Path(folder) / "_core" / "include").is_dir()), None)
