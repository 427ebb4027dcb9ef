"""Add advice to the compiler's errors: what to write in OpenCL C instead of CUDA's names and types, and what half and
subgroups need."""

import re

_UNKNOWN = re.compile(r"(?:undeclared (?:identifier|function)|declaration of function|unknown type name) ['‘`\"](\w+)")
_ATOMIC = {
    "Add": "add", "Sub": "sub", "Min": "min", "Max": "max", "And": "and", "Or": "or", "Xor": "xor", "Exch": "xchg",
}  # fmt: skip
_FLOAT_SUM = (
    "`float atomicAdd(volatile __global float *p, float v) { float old; do old = *p; while (atomic_cmpxchg((volatile "
    "__global int *)p, as_int(old), as_int(old + v)) != as_int(old)); return old; }`"
)
_NOT_INTEGER = re.compile(r"call to ['‘`\"](?:_cl_)?atomic_add\b")
_FORBIDDEN = re.compile("cannot be used as the type of a kernel parameter")
_FORBIDDEN_ADVICE = (
    "OpenCL C forbids bool, size_t, ptrdiff_t, intptr_t and uintptr_t there, also within a struct; "
    "write unsigned char, unsigned long or long"
)
_HALF = re.compile(r"requires cl_khr_fp16|\btype '(?:\w+ )*half' is not allowed")
_HALF_ADVICE = (
    "this device cannot compute with half (it lacks cl_khr_fp16); compute with float, and read and write by "
    "vload_half and vstore_half, or use another driver: see docs/types.md"
)
_SUBGROUP = re.compile(r"(?:get_)?(?:sub_group|num_sub_groups|max_sub_group|enqueued_num_sub)\w*|intel_sub_group\w+")
_SUBGROUP_ADVICE = (
    "subgroups need a device that has them, and as a rule `compile_options: {opencl: [-cl-std=CL3.0]}`; see "
    "docs/types.md"
)
_ALONE = "OpenCL C has no equivalent; put it under #ifndef __OPENCL_VERSION__, or write `languages: [cuda]`"
_DEFINITIONS = {  # by CUDA name: the parameters and body of a macro, and the types that it supports
    **{f"atomic{cuda}": (f"(p, v) atomic_{name}(p, v)", ", for int and unsigned") for cuda, name in _ATOMIC.items()},
    "atomicAdd": ("(p, v) atomic_add(p, v)", f" for int and unsigned, for float {_FLOAT_SUM}"),
    "atomicCAS": ("(p, old, v) atomic_cmpxchg(p, old, v)", ", for int and unsigned"),
    "__ldg": ("(p) (*(p))", ""),
    "__popc": ("(x) ((int)popcount((uint)(x)))", ""),
    "__clz": ("(x) ((int)clz((uint)(x)))", ""),
    "__fdividef": ("(x, y) native_divide(x, y)", ""),
    "__threadfence": ("() mem_fence(CLK_GLOBAL_MEM_FENCE)", ""),
}
_MATHEMATICS = re.compile(
    r"(a?(?:sin|cos|tan)h?|exp|exp2|expm1|log|log2|log10|log1p|sqrt|rsqrt|cbrt|pow|erfc?|fabs|fmin|fmax|fma|floor|ceil|rint"
    r"|round|trunc|fmod|hypot|atan2)f"
)
_NATIVE = re.compile(r"__(sin|cos|tan|exp|log|log2|log10)f")
_HEADERS = re.compile(r"__(?:syncthreads|shared__|restrict__|global__)|(?:thread|block)Idx|(?:block|grid)Dim")
_VECTOR = re.compile(r"make_(\w+\d)")
_OTHERS = re.compile(
    r"__(?:\w+_sync|syncwarp|syncthreads_\w+|device__|host__)|warpSize|atomic(?:Inc|Dec)|cuda\w+|cooperative_groups"
)


def explained(log: str) -> str:
    """The compiler's log, with advice after the first message about each CUDA name."""
    explained_words, lines = set[str](), list[str]()
    for line in log.splitlines():
        word, advice = _advice(line)
        lines.append(f"{line}; {advice}" if advice and word not in explained_words else line)
        explained_words.add(word)
    return "\n".join(lines)


def _advice(line: str) -> tuple[str, str]:
    """What a message is about, which is as a rule a CUDA name, and the advice; both empty if there is no advice."""
    if _FORBIDDEN.search(line):
        return "kernel parameter", _FORBIDDEN_ADVICE
    if _NOT_INTEGER.search(line):
        return "atomic_add", f"atomic_add is for int and unsigned; for float, write {_FLOAT_SUM} instead"
    if _HALF.search(line):
        return "half", _HALF_ADVICE
    unknown = _UNKNOWN.search(line)
    if unknown and _SUBGROUP.fullmatch(unknown[1]):
        return "sub_group", _SUBGROUP_ADVICE
    replacement = _replacement(unknown[1]) if unknown else ""
    return (unknown[1], f"{unknown[1]} is CUDA's: {replacement}") if unknown and replacement else ("", "")


def _replacement(word: str) -> str:
    """The advice on what to write instead of a CUDA name; empty for any other name."""
    if word in _DEFINITIONS:
        text, limits = _DEFINITIONS[word]
        return f"under #ifdef __OPENCL_VERSION__ write `#define {word}{text}`{limits}"
    if name := _MATHEMATICS.fullmatch(word):
        return f"write {name[1]}, which both languages have"
    if name := _NATIVE.fullmatch(word):
        return f"under #ifdef __OPENCL_VERSION__ write `#define {word}(x) native_{name[1]}(x)`"
    if name := _VECTOR.fullmatch(word):
        return f"OpenCL C writes ({name[1]})(...); put both under #ifdef __OPENCL_VERSION__ and #else"
    if _HEADERS.fullmatch(word):
        return '#include "portable.h"'
    return _ALONE if _OTHERS.fullmatch(word) else ""
