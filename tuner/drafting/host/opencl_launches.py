"""Finds the launches of an OpenCL kernel in host code, in C and through the C++ wrapper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tuner.drafting.expansion import split_arguments
from tuner.drafting.host.launch_site import LaunchSite, pointed_to
from tuner.drafting.host.program import HostFunction, HostProgram

_MAKERS = ("clCreateKernel", "Kernel", "make_kernel", "KernelFunctor")
MOST_AXES = 3
_Given = dict[int, list[tuple[str, ...]]]  # the distinct values of each argument, in order


def launches(program: HostProgram, kernel: str, count: int) -> Iterator[LaunchSite]:
    """The launches of a kernel with `count` arguments. Where a function only sets them all, the grid is that of the
    only function that enqueues the kernel without setting any; else it is unknown."""
    names = _kernels(program, kernel)
    if not any(names.values()):
        return
    every = {function: [*_enqueued(function, names[function])] for function in program.functions}
    without = [f for f, found in every.items() if found and not any(_setters(f, names[f], count))]
    for function in program.functions:
        known, enqueued = names[function], every[function]
        yield from _functors(function, known)
        if not enqueued and len(without) == 1:
            given = _set(function, known, count, 0, len(function.body))
            for arguments in _combined(given, count, is_whole=True):
                where = max(where for where, _, _ in _setters(function, known, count))
                for at, axes, grid, block in every[without[0]]:
                    yield LaunchSite(function, where, grid, block, (), arguments, axes, (without[0], at))
            continue
        for at, axes, grid, block in enqueued or [(0, 0, (), ())]:
            last = at or len(function.body)
            given = _set(function, known, count, 0, last) or _set(function, known, count, last, len(function.body))
            for arguments in _combined(given, count, is_whole=not enqueued):
                where = at or max(where for where, _, _ in _setters(function, known, count))
                yield LaunchSite(function, where, grid, block, (), arguments, axes)


def _kernels(program: HostProgram, kernel: str) -> dict[HostFunction, set[str]]:
    """The variables of each function that hold a kernel of this name: its own, and those of other functions."""
    literal = f'"{kernel}"'
    every = [*program.functions, program.file]
    known = {literal} | {
        name for each in every for name, found in each.assignments.items() if any(a.words == (literal,) for a in found)
    }
    own = {function: _created(function, known) for function in program.functions}
    others = {name for created in own.values() for name in created}
    return {
        function: created
        | {name for name in others if name not in function.assignments and not function.declares(name)}
        for function, created in own.items()
    }


def _created(function: HostFunction, known: set[str]) -> set[str]:
    """The variables to which a function assigns a kernel of one of these names."""
    found = ((name, each.position, each.words) for name, list_ in function.assignments.items() for each in list_)
    return {
        name
        for name, at, words in found
        if not known.isdisjoint(words)
        and "(" in words
        and (words[-1] == ")" or {*_MAKERS} & {*words, *function.body[max(0, at - 24) : at]})
    }


def _enqueued(function: HostFunction, kernels: set[str]) -> Iterator[tuple[int, int, tuple[str, ...], tuple[str, ...]]]:
    """The positions where a function enqueues a kernel, each with its axes, global size and local size."""
    for at, given in function.calls("clEnqueueNDRangeKernel"):
        if len(given) > 5 and _plain(given[1]) in kernels:
            axes = int(given[2][0]) if given[2][0].isdecimal() else MOST_AXES
            yield at, axes, tuple(given[4]), tuple(given[5])
    for at, given in function.calls("enqueueNDRangeKernel"):
        if len(given) > 2 and _plain(given[0]) in kernels:
            yield at, MOST_AXES, tuple(given[2]), tuple(given[3]) if len(given) > 3 else ()


def _plain(words: Sequence[str]) -> str:
    """The name of a kernel, also of one that a pointer points to."""
    return "".join(words[1:] if words[:1] == ["*"] else words)


def _functors(function: HostFunction, kernels: set[str]) -> Iterator[LaunchSite]:
    """The launches `kernel(cl::EnqueueArgs(queue, global, local), x, n)`."""
    for name in kernels:
        for at, (first, *arguments) in function.calls(name):
            if first[:2] == ["EnqueueArgs", "("]:
                sizes = [each for each in split_arguments(first[2:-1]) if _is_range(function, each)]
                grid, block = (sizes[-2:] if len(sizes) > 1 else [*sizes, []])[:2] if sizes else ([], [])
                yield LaunchSite(function, at, tuple(grid), tuple(block), (), tuple(map(tuple, arguments)), MOST_AXES)


def _is_range(function: HostFunction, words: Sequence[str]) -> bool:
    return words[:1] == ["NDRange"] or (len(words) == 1 and function.is_dim3(words[0]))


def _setters(function: HostFunction, kernels: set[str], count: int) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where a function sets an argument of a kernel, with the number of the argument and its value."""
    following = 0
    found = [(at, given, False) for at, given in function.calls("clSetKernelArg") if len(given) == 4]
    found += [(at, [[function.path(at).rpartition(".")[0]], *given], True) for at, given in function.calls("setArg")]
    for at, given, is_wrapper in sorted(found, key=lambda each: each[0]):
        number = given[1]
        if _plain(given[0]) not in kernels:
            continue
        if number[0].isdecimal():
            following = int(number[0])
        elif "+ +" not in " ".join(number):
            continue
        yield at, following % max(count, 1), tuple(given[2]) if is_wrapper else _argument(*given[2:])
        following += 1


def _argument(size: Sequence[str], value: Sequence[str]) -> tuple[str, ...]:
    """What clSetKernelArg sets; local memory as the C++ wrapper writes it."""
    return ("Local", "(", *size, ")") if value[-1:] in (["NULL"], ["nullptr"], ["0"]) else pointed_to(value)


def _set(function: HostFunction, kernels: set[str], count: int, start: int, end: int) -> _Given:
    """The values that a function sets between two positions for each argument."""
    found: _Given = {}
    for at, number, value in _setters(function, kernels, count):
        if start <= at < end and value not in found.setdefault(number, []):
            found[number].append(value)
    return found


def _combined(given: _Given, count: int, is_whole: bool) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Lists of arguments that have each of the given values; if `is_whole`, only if all arguments are given."""
    if not given or (is_whole and {*given} != {*range(count)}):
        return
    for turn in range(max(map(len, given.values()))):
        every = [given.get(number, [("?",)]) for number in range(count)]
        yield tuple(values[min(turn, len(values) - 1)] for values in every)
