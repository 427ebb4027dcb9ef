"""Patterns of the headers that compilers have in folders of their own.

They are compiled when they are first needed: few programs that launch a kernel read a source.
"""

# The headers of C++ that declare names of std, without those that libcu++ itself includes.
STANDARD = (
    "algorithm", "array", "bitset", "chrono", "codecvt", "complex", "deque", "filesystem", "forward_list",
    "fstream", "functional", "future", "iomanip", "ios", "iosfwd", "iostream", "istream", "iterator", "limits",
    "list", "locale", "map", "memory", "mutex", "numeric", "ostream", "queue", "random", "ratio", "regex",
    "set", "shared_mutex", "span", "sstream", "stack", "streambuf", "string", "string_view", "thread", "tuple",
    "type_traits", "unordered_map", "unordered_set", "utility", "valarray", "vector",
)  # fmt: skip
# Headers of C, C++ and CUDA, which some programs include in quotes. Compilers find them in their own folders.
OF_COMPILERS = (
    r"(?:assert|complex|ctype|errno|fenv|float|inttypes|limits|locale|malloc|math|memory|omp|setjmp|signal|stdarg|stdbool"
    r"|stddef|stdint|stdio|stdlib|string|strings|time|unistd|wchar|sys/\w+"
    r"|(?:common|device|device_atomic|math|sm_\d+_\w+|vector)_functions|(?:builtin|driver|library|surface|texture|vector)"
    r"_types|cooperative_groups|cublas(?:_v2|Lt)?|cuComplex|cuda|cuda_(?:bf16|fp4|fp6|fp8|fp16|gl_interop|profiler_api"
    r"|runtime|runtime_api|texture_types)|cudnn|cufft|curand(?:_\w+)?|cusolverDn|cusparse|device_launch_parameters"
    r"|host_(?:config|defines)|math_constants|mma|nvml|nvrtc|nvToolsExt|CL/\w+)\.h"
    r"|(?:thrust|cub|cuda/std)/[\w/]+(?:\.c?uh|\.h)?"
    rf"|{'|'.join(STANDARD)}|any|atomic|condition_variable|exception|execution|initializer_list|new|numbers|optional"
    r"|stdexcept|system_error|typeinfo|variant"
    r"|c(?:assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stddef|stdint|stdio|stdlib"
    r"|string|time|wchar)"
)
OF_CUDA = (
    r"(?:thrust|cub|cuda|cute|cutlass|cooperative_groups|nv|crt)/.*"
    r"|(?:cu(?:blas|Complex|da|dnn|dss|fft|file|pti|rand|solver|sparse|tensor)|nv|nccl)\w*\.h(?:pp)?"
)
