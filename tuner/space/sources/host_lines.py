"""Lines of a .cu that are for the host, as far as its text tells: what a compiler of kernels alone refuses."""

import re

GUARD = "__CUDACC_RTC__"  # which a compiler of kernels defines, and nvcc does not
_COMMENT = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_HEADERS = (
    "algorithm array chrono fstream functional iomanip iostream iterator map memory numeric random set sstream "
    "stdexcept string thread unordered_map vector"
)
_HOST = re.compile(
    rf"^\s*#\s*include\s*<(?:{'|'.join(_HEADERS.split())})>|<<<|\bint\s+main\s*\(|"
    r"^\s*(?:static\s+|inline\s+)*__host__(?!.*__device__)"
)
_CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b(.*)")


def of(text: str) -> list[int]:
    """The numbers of the lines of `text` that are for the host: headers of C++, launches, `main`, functions that are
    `__host__` alone. Those that a condition on GUARD leaves out are none."""
    code = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    found, around = list[int](), list[str]()  # of each #if around a line: what it says of GUARD
    for number, line in enumerate(code.split("\n"), 1):
        if (match := _CONDITION.match(line)) is None:
            if "absent" not in around and _HOST.search(line):
                found.append(number)
        elif match[1] == "endif":
            del around[-1:]
        elif match[1] == "else":
            around[-1:] = [{"absent": "present", "present": "absent"}.get(said, "") for said in around[-1:]]
        elif match[1] == "elif":
            around[-1:] = [""]
        else:
            absent = match[1] == "ifndef" or re.search(rf"!\s*(defined\W+)?{GUARD}", match[2])
            around.append("" if GUARD not in match[2] else "absent" if absent else "present")
    return found
