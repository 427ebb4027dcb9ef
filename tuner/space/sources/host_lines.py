"""Find the lines of a .cu file that contain host code, which NVRTC rejects."""

import re

GUARD = "__CUDACC_RTC__"  # defined by NVRTC, not by nvcc
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
    """The line numbers of host code: C++ headers, launches, `main` and functions that are only `__host__`.

    Lines that are excluded by a condition on GUARD are not listed.
    """
    code = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)
    # `guards` has an entry for each enclosing #if: whether GUARD is "present" or "absent" here, "" if unknown.
    found, guards = list[int](), list[str]()
    for number, line in enumerate(code.split("\n"), 1):
        if (match := _CONDITION.match(line)) is None:
            if "absent" not in guards and _HOST.search(line):
                found.append(number)
        elif match[1] == "endif":
            del guards[-1:]
        elif match[1] == "else":
            guards[-1:] = [{"absent": "present", "present": "absent"}.get(state, "") for state in guards[-1:]]
        elif match[1] == "elif":
            guards[-1:] = [""]
        else:
            absent = match[1] == "ifndef" or re.search(rf"!\s*(defined\W+)?{GUARD}", match[2])
            guards.append("" if GUARD not in match[2] else "absent" if absent else "present")
    return found
