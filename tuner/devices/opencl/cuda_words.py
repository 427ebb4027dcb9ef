"""Words of CUDA in a source that is compiled as OpenCL C: what stands for them there, for the compiler's log."""

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
_ALONE = "OpenCL C has no such word; keep that to #ifndef __OPENCL_VERSION__, or write `languages: [cuda]`"
_DEFINITIONS = {  # by their names; all arguments keep their order
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
    """The compiler's log, with the cure behind the first message about each word."""
    told, lines = set[str](), list[str]()
    for line in log.splitlines():
        word, advice = _advice(line)
        lines.append(f"{line}; {advice}" if advice and word not in told else line)
        told.add(word)
    return "\n".join(lines)


def _advice(line: str) -> tuple[str, str]:
    """The word that a message is about, and what to do; both empty for a message of another kind."""
    if _NOT_INTEGER.search(line):
        return "atomic_add", f"atomic_add is for int and unsigned: in its place, for float, write {_FLOAT_SUM}"
    unknown = _UNKNOWN.search(line)
    cure = _cure(unknown[1]) if unknown else ""
    return (unknown[1], f"{unknown[1]} is CUDA's: {cure}") if unknown and cure else ("", "")


def _cure(word: str) -> str:
    """What to write in place of a word; empty for one that CUDA does not have."""
    if word in _DEFINITIONS:
        text, limits = _DEFINITIONS[word]
        return f"under #ifdef __OPENCL_VERSION__ write `#define {word}{text}`{limits}"
    if name := _MATHEMATICS.fullmatch(word):
        return f"write {name[1]}, which both have"
    if name := _NATIVE.fullmatch(word):
        return f"under #ifdef __OPENCL_VERSION__ write `#define {word}(x) native_{name[1]}(x)`"
    if name := _VECTOR.fullmatch(word):
        return f"OpenCL C writes ({name[1]})(...); put both under #ifdef __OPENCL_VERSION__ and #else"
    if _HEADERS.fullmatch(word):
        return '#include "portable.h"'
    return _ALONE if _OTHERS.fullmatch(word) else ""
