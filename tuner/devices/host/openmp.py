"""The settings of OpenMP's runtimes (GNU's libgomp, LLVM's libomp), which decide the threads of a kernel on the host.

They are evaluated as the runtimes do: a text that these reject counts as unset.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Iterator, Mapping

from tuner.devices import settings
from tuner.devices.conditions import Value
from tuner.devices.settings import Settings

PLAIN: Settings = {
    "OMP_ALLOCATOR": "omp_default_mem_alloc",
    "OMP_CANCELLATION": 0,
    "OMP_DYNAMIC": 0,
    "OMP_MAX_TASK_PRIORITY": 0,
    "OMP_NUM_TEAMS": 0,
    "OMP_TEAMS_THREAD_LIMIT": 0,
}
LLVM: Settings = {  # of libomp, and of Intel's libiomp5, alone
    "KMP_AFFINITY": "",
    "KMP_ALL_THREADS": "",
    "KMP_BLOCKTIME": 200,
    "KMP_DYNAMIC_MODE": "",
    "KMP_FORCE_REDUCTION": "",
    "KMP_FORKJOIN_BARRIER": "",
    "KMP_HOT_TEAMS_MAX_LEVEL": 1,
    "KMP_HOT_TEAMS_MODE": 0,
    "KMP_HW_SUBSET": "",
    "KMP_LIBRARY": "throughput",
    "KMP_LOCK_KIND": "",
    "KMP_PLAIN_BARRIER": "",
    "KMP_REDUCTION_BARRIER": "",
    "KMP_SCHEDULE": "",
    "KMP_TASKING": "",
    "KMP_TEAMS_THREAD_LIMIT": "",
    "KMP_USE_YIELD": 1,
}
PLACING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")
COUNTING, DYNAMIC = ("OMP_NUM_THREADS", "OMP_THREAD_LIMIT"), "OMP_DYNAMIC"
UNLIMITED = 2**31 - 1  # threads
MANY = "many"  # levels of nested parallelism, as many as the runtime supports
_SPINS = {"": 300_000, "active": 30_000_000_000, "passive": 0}  # of GOMP_SPINCOUNT, by the policy of waiting
_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BYTES = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def effective(processors: int, is_gnu: bool) -> tuple[dict[str, Value], dict[str, Value]]:
    """The values of a process that may run on so many `processors`, and the values of one that sets no variable.

    `is_gnu`: the runtime is libgomp, which reads no KMP_ variables.
    """
    numbers, limit = _counts(_text("OMP_NUM_THREADS")), _counts(_text("OMP_THREAD_LIMIT"))[:1]
    limit = [each for each in limit if each < UNLIMITED]
    threads = [min([numbers[0] if numbers else processors, *limit]), *numbers[1:]]
    policy = _text("OMP_WAIT_POLICY")
    nested = settings.read("OMP_NESTED", 0)
    binding = _binding()
    schedule = "dynamic" if is_gnu else "static"
    has_lists = len(threads) > 1 or "," in str(binding["OMP_PROC_BIND"])
    levels: Value = MANY if nested or has_lists else 1
    stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
    defaults: dict[str, Value] = {
        **PLAIN,
        **(LLVM if not is_gnu else {}),
        **dict.fromkeys(binding, ""),
        "OMP_PROC_BIND": "false",
        "OMP_MAX_ACTIVE_LEVELS": MANY if has_lists else 1,
        "OMP_NUM_THREADS": processors,
        "OMP_SCHEDULE": schedule,
        "OMP_STACKSIZE": "" if stack == resource.RLIM_INFINITY else stack,
        "OMP_THREAD_LIMIT": "",
        "OMP_WAIT_POLICY": "",
    }
    values: dict[str, Value] = {
        **settings.effective({**PLAIN, **(LLVM if not is_gnu else {})}),
        **binding,
        "OMP_MAX_ACTIVE_LEVELS": settings.read("OMP_MAX_ACTIVE_LEVELS", levels),
        "OMP_NUM_THREADS": threads[0] if len(threads) == 1 else ",".join(map(str, threads)),
        "OMP_SCHEDULE": _schedule(_text("OMP_SCHEDULE")) or schedule,
        "OMP_STACKSIZE": _stack(is_gnu) or defaults["OMP_STACKSIZE"],
        "OMP_THREAD_LIMIT": limit[0] if limit else "",
        "OMP_WAIT_POLICY": policy,
    }
    if is_gnu:
        defaults["GOMP_SPINCOUNT"] = _SPINS.get(policy, "")
        spins = _scaled(_text("GOMP_SPINCOUNT"), _FACTORS, 1)
        values["GOMP_SPINCOUNT"] = defaults["GOMP_SPINCOUNT"] if spins == "" else spins
    return values, defaults


@contextlib.contextmanager
def apart() -> Iterator[bool]:
    """A block in which libgomp, if it is loaded there, gives each of its threads a processor of its own. Fewer threads
    than processors spread over the cores, as the system spreads them.

    It tells whether it does: not if a variable places the threads, sets their number, or lets the runtime choose it.
    """
    is_counted = any(_counts(_text(name)) for name in COUNTING)
    if is_counted or _text(DYNAMIC) == "1" or any(_text(name) for name in PLACING):
        yield False
        return
    os.environ[PLACING[0]] = "spread"
    try:
        yield True
    finally:
        del os.environ[PLACING[0]]  # it is no condition of a trial that a user has set


def _text(name: str) -> str:
    """A variable in lower case, without spaces. In OpenMP 5.2, one for all devices may stand for that of the host."""
    value = settings.read(name, settings.read(f"{name}_ALL"))
    return re.sub(r"\s", "", str(value)).casefold()


def _counts(text: str) -> list[int]:
    """A list of positive numbers; empty if the text is no such list."""
    parts = text.split(",")
    return [int(part) for part in parts] if all(part.isdecimal() and int(part) for part in parts) else []


def _binding() -> Mapping[str, Value]:
    """Whether threads stay on places, and on which: nowhere, unless a variable names places or asks for it."""
    places, affinity = _text("OMP_PLACES"), settings.read("GOMP_CPU_AFFINITY")
    default = "true" if places or affinity != "" else "false"  # an affinity of 0 is the first processor
    asked = {"1": "true", "0": "false", "master": "primary"}
    bind = ",".join(asked.get(each, each) for each in (_text("OMP_PROC_BIND") or default).split(","))
    if bind == "false":
        return {"OMP_PROC_BIND": bind, "OMP_PLACES": "", "GOMP_CPU_AFFINITY": ""}
    return {"OMP_PROC_BIND": bind, "OMP_PLACES": places, "GOMP_CPU_AFFINITY": "" if places else affinity}


def _schedule(text: str) -> str:
    """A schedule in its shortest form. By default, `dynamic` and `guided` have chunks of 1 and are nonmonotonic."""
    kind, _, chunk = text.rpartition(":")[2].partition(",")
    modifier = text.rpartition(":")[0]
    is_free = kind in ("dynamic", "guided")
    if modifier == ("nonmonotonic" if is_free else "monotonic"):
        modifier = ""
    chunk = "" if chunk == "1" and is_free else chunk
    return f"{modifier}{':' * bool(modifier)}{kind}{',' * bool(chunk)}{chunk}"


def _stack(is_gnu: bool) -> Value:
    """The bytes of a thread's stack; empty if no variable says a size. A number without a unit is of KiB."""
    names = ("OMP_STACKSIZE", "GOMP_STACKSIZE", *(() if is_gnu else ("KMP_STACKSIZE",)))
    return next((size for name in names if (size := _scaled(_text(name), _BYTES, 1 << 10))), "")


def _scaled(text: str, factors: Mapping[str, int], plain: int) -> Value:
    """A number with the letter of a factor; `infinite` for either spelling; empty if the text is neither."""
    if text in ("infinite", "infinity"):
        return "infinite"
    number = re.fullmatch(r"(\d+)([a-z]?)", text)
    if number is None or number[2] not in (*factors, ""):
        return ""
    return int(number[1]) * (factors[number[2]] if number[2] else plain)
