"""A copy of PoCL, whose built-in functions are those that this project mentions. It builds a kernel in a third of the
time.

PoCL parses the declarations of all built-in functions before each kernel, and reads the code of all of them in each
process. Most are overloads for types and functions that no kernel here has. The copy has its own header and library;
what remains in them is unchanged. A kernel that calls another built-in function does not compile. So no kernel here
may have vectors of 8 or 16 integers, whose types have names of this project's dtypes, or call a function of
`OF_NUMBERS` with a vector.

PoCL finds both relative to its own place. Where an installation differs, it is used as it is.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from filelock import FileLock

from helpers import ROOT

VENDORS = Path("/etc/OpenCL/vendors")
LIBRARY, HEADER = "lib/arch/libpocl.so", "include/opencl-c.h"
WORD = re.compile(r"[A-Za-z_]\w*")
FOLDERS = ("kernels", "spaces", "tuner", "tests", "docs", "benchmarks")  # where kernels are
SUFFIXES = {".c", ".cl", ".cu", ".cuh", ".h", ".md", ".py", ".yaml"}
VECTOR = re.compile(r"\b(?:u?(?:char|short|int|long)|float|double|half)\d+\b")
NAMESAKES = {"int8", "int16", "uint8", "uint16"}  # vectors in OpenCL C, dtypes here
# Names that macros compose: those of tuner.devices.opencl.cuda_words, and of kernels/gallery/dot.cl.
COMPOSED = re.compile("atomic_(add|and|max|min|or|sub|xchg|xor)|vload(2|4|8|16)")
OF_NUMBERS = re.compile(  # functions whose code for vectors is half of the library
    r"(?:native_)?(?:cos|exp|log|powr|sin)|a(?:cos|sin|tan)h?|atan2|cbrt|(?:cos|sin|tan)(?:h|pi)|erfc?|exp10|exp2|expm1|fmod|"
    r"frexp|hypot|ldexp|[lt]gamma|log10|log1p|log2|modf|pown?|rem(?:ainder|quo)|rootn|shuffle2?|sincos|tan"
)
SCALARS = {
    "a": "char", "c": "char", "h": "uchar", "s": "short", "t": "ushort", "i": "int", "j": "uint", "l": "long",
    "m": "ulong", "f": "float", "d": "double", "Dh": "half",
}  # fmt: skip  # the types in names of C++, which PoCL's functions have
INTERNAL = 8  # a linkage of LLVM's
KERNEL = "__kernel void nothing(__global int *x) { x[get_global_id(0)] = 0; }"


def vendors(cache: Path) -> Path | None:
    """A folder for OCL_ICD_VENDORS, with the copy below `cache` in place of PoCL; None where that cannot be."""
    files = {file: file.read_text().strip() for file in VENDORS.glob("*.icd")}
    icd = next((file for file, library in files.items() if "pocl" in library), None)
    if icd is None or any(name.startswith(("OCL_ICD", "OPENCL_VENDOR", "POCL_BUILDING")) for name in os.environ):
        return None
    pocl = next(
        (file.resolve() for file in (Path(files[icd]), *Path("/usr").glob(f"lib/*/{files[icd]}")) if file.is_file()),
        None,
    )
    if pocl is None or not (original := _share(pocl) / HEADER).is_file():
        return None
    text = original.read_text()
    words = _words().intersection(WORD.findall(text))
    header = trimmed_header(text, words)
    installed = pocl.stat()
    about = header, installed.st_mtime_ns, installed.st_size, files, Path(__file__).read_bytes()
    folder = cache / hashlib.sha256(repr(about).encode()).hexdigest()[:16]
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            new = folder.with_suffix(".new")
            shutil.rmtree(new, ignore_errors=True)
            _link(new, pocl, header)
            for file, library in files.items():
                (new / "vendors" / file.name).write_text(str(folder / LIBRARY) if file == icd else library)
            # A process of its own, because LLVM would stay in this one.
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
            command = [sys.executable, "-m", "helpers.trimmed_pocl", str(new)]
            subprocess.run(command, env=environment, capture_output=True, text=True, input="\n".join(words))
            new.rename(folder)
    return folder / "vendors"


def _words() -> set[str]:
    """The words of this project."""
    files = (file for name in FOLDERS for file in (ROOT / name).rglob("*.*") if file.suffix in SUFFIXES)
    return {word for file in files for word in WORD.findall(file.read_text(errors="replace"))} - NAMESAKES


def _share(pocl: Path) -> Path:
    return Path(os.path.normpath(pocl.parent / "../../share/pocl"))


def _link(folder: Path, pocl: Path, header: str) -> None:
    """Fill a folder with the copy, whose library of built-in functions is still the whole one."""
    for name in ("lib/arch", "vendors", "share/pocl/include"):
        (folder / name).mkdir(parents=True)
    shutil.copy(pocl, folder / LIBRARY)
    (folder / "lib/arch/pocl").symlink_to(pocl.parent / "pocl")
    share = _share(pocl)
    for file in {*share.glob("*.*"), *share.glob("include/*.*")} - {share / HEADER}:
        (folder / "share/pocl" / file.relative_to(share)).symlink_to(file)
    (folder / "share/pocl" / HEADER).write_text(header)


def _trim(folder: Path, words: set[str]) -> None:
    """Trim the library that PoCL chooses for this processor. Raises where PoCL or LLVM differ."""
    ctypes.CDLL(str(folder / LIBRARY))
    llvm = re.search(r"\s(/\S*/libLLVM[^/]*)$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    used = folder / "share/pocl" / _used_library(folder)
    trimmed = folder / "trimmed.bc"
    assert llvm
    trim_library(ctypes.CDLL(llvm[1]), used, trimmed, words)
    used.unlink()
    trimmed.rename(used)


def trimmed_header(text: str, words: set[str]) -> str:
    """PoCL's header, of which each declaration stays whose function and vector types are among the words."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL).replace("\\\n", " ")
    kept, declaration = [], ""
    for line in text.splitlines():
        if line.startswith("#"):
            kept.append(line)
            continue
        declaration += f"{line} "
        if line.rstrip().endswith(";"):
            if declaration.lstrip().startswith(("typedef", "enum", "struct")) or _is_used(declaration, words):
                kept.append(declaration.strip())
            declaration = ""
    return "\n".join(kept)


def _is_used(declaration: str, words: set[str]) -> bool:
    function = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", declaration))
    return function is None or _is_called(function[1], VECTOR.findall(declaration), words)


def _is_called(function: str, vectors: list[str], words: set[str]) -> bool:
    """Whether a kernel may call it with these vectors."""
    is_used = function in words or COMPOSED.fullmatch(function)
    return bool(is_used) and words.issuperset(vectors) and not (vectors and OF_NUMBERS.fullmatch(function))


def _used_library(folder: Path) -> str:
    """The name of the library, as PoCL says it when it builds."""
    program = (
        "import pyopencl as cl, sys\n"
        "device = cl.get_platforms()[0].get_devices()[0]\n"
        "cl.Program(cl.Context([device]), sys.argv[1]).build(cache_dir=False)\n"
    )
    icd, cache = folder / "only.icd", folder / "cache"
    icd.write_text(str(folder / LIBRARY))
    told = {"OCL_ICD_VENDORS": str(icd), "POCL_DEBUG": "all", "POCL_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "ignore", "-c", program, KERNEL]
    done = subprocess.run(command, env={**os.environ, **told}, capture_output=True, text=True, check=True)
    shutil.rmtree(cache)
    said = re.search(r"Using (\S+\.bc) as the built-in lib", done.stderr)
    assert said
    return Path(said[1]).name


def trim_library(llvm: Any, source: Path, target: Path, words: set[str]) -> None:
    """The library of built-in functions, with those that are used and what these call."""
    for name in ("ContextCreate", "GetFirstFunction", "GetNextFunction", "CreatePassBuilderOptions", "RunPasses"):
        getattr(llvm, f"LLVM{name}").restype = ctypes.c_void_p
    llvm.LLVMGetValueName2.restype = ctypes.c_char_p
    pointer = ctypes.c_void_p
    context, buffer, module, length = pointer(llvm.LLVMContextCreate()), pointer(), pointer(), ctypes.c_size_t()
    message = ctypes.byref(pointer())
    assert not llvm.LLVMCreateMemoryBufferWithContentsOfFile(bytes(source), ctypes.byref(buffer), message)
    assert not llvm.LLVMParseBitcodeInContext2(context, buffer, ctypes.byref(module))

    def functions() -> dict[str, Any]:
        found, function = {}, llvm.LLVMGetFirstFunction(module)
        while function:
            if not llvm.LLVMIsDeclaration(pointer(function)):
                name = llvm.LLVMGetValueName2(pointer(function), ctypes.byref(length))
                found[name.decode()] = pointer(function)
            function = llvm.LLVMGetNextFunction(pointer(function))
        return found

    linkages = {}
    for name, function in functions().items():
        if not _is_root(name, words):
            linkages[name] = llvm.LLVMGetLinkage(function)
            llvm.LLVMSetLinkage(function, INTERNAL)
    assert not llvm.LLVMRunPasses(module, b"globaldce", None, pointer(llvm.LLVMCreatePassBuilderOptions()))
    for name, function in functions().items():
        if name in linkages:
            llvm.LLVMSetLinkage(function, linkages[name])
    assert not llvm.LLVMWriteBitcodeToFile(module, bytes(target))


def _is_root(name: str, words: set[str]) -> bool:
    """Whether a kernel may call a function of PoCL's by this name."""
    mangled = re.match(r"_Z(\d+)(.*)", name)
    if mangled is None:
        return not name.startswith("Sleef")
    length = int(mangled[1])
    function, types = mangled[2][:length], mangled[2][length:]
    vectors = [SCALARS.get(of, of) + n for n, of in re.findall(r"Dv(\d+)_(Dh|\w)", types)]
    images = [f"{image}_t" for image in re.findall(r"ocl_(image\w+)_[rw][ow]", types)]
    return _is_called(function.removeprefix("_cl_"), vectors, words) and words.issuperset(images)


if __name__ == "__main__":
    _trim(Path(sys.argv[1]), set(sys.stdin.read().split()))
