"""Reads the figures of kernels from the verbose output of ptxas."""

import re

from tuner.devices.builds.figures import Figures
from tuner.devices.cuda import ptx

VERBOSE = "--ptxas-options=-v"
_PROPERTIES = re.compile(r"Function properties for (\S+)\n[^\n]*?(\d+) bytes spill stores, (\d+) bytes spill loads")


def figures(log: str, kernel: str, assembly: str) -> Figures:
    """The figures of `kernel` from ptxas's verbose output, which also lists functions that are not inlined.

    The spills of the functions that the kernel calls are added to its own. Its registers and stack already include
    theirs. `assembly` is the PTX, which shows the called functions; without it, all functions in the output count.
    """
    section = log.partition(f"Compiling entry function '{kernel}'")[2].partition("Compiling entry function")[0]
    registers = re.search(r"Used (\d+) registers", section)
    shared = re.search(r"(\d+) bytes smem", section)
    stack = re.search(r"(\d+) bytes cumulative stack size", section) or re.search(r"(\d+) bytes stack frame", section)
    spills = {name: int(stored) + int(loaded) for name, stored, loaded in _PROPERTIES.findall(log)}
    entries = set(re.findall(r"Compiling entry function '([^']+)'", log))
    called = ptx.called(assembly, kernel) if assembly else {kernel, *(spills.keys() - entries)}
    return Figures(
        registers=int(registers[1]) if registers else None,
        spills=sum(spills[name] for name in called & spills.keys()) if kernel in spills else None,
        shared_memory=int(shared[1]) if shared else 0 if registers else None,
        local_memory=int(stack[1]) if stack else None,
    )
