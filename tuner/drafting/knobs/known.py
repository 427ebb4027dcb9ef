"""The names that compilers and the standard headers of the languages declare."""

import re

_KNOWN = re.compile(
    r"__\w*|\w+_t|cuda\w+|cu[A-Z]\w+|CU_\w+|CLK_\w+|CL_\w+|CUDART_\w+|M_\w+|memory_\w+|thread_scope\w*|omp_\w+"
    r"|(?:FLT|DBL|LDBL|HALF|S?CHAR|UCHAR|U?SHRT|U?INT|U?LONG|U?LLONG|SIZE|PTRDIFF|U?INT\w*\d+|U?INTPTR|RAND)_\w+"
    r"|INFINITY|NAN|HUGE_VAL[FL]?|MAXFLOAT|NULL|EOF|nullptr|true|false|this|errno|stdin|stdout|stderr|warpSize"
    r"|threadIdx|blockIdx|blockDim|gridDim|I"
)


def is_known(name: str) -> bool:
    """Whether compilers or the standard headers of the languages declare names such as this one."""
    return _KNOWN.fullmatch(name) is not None
