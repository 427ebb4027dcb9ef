"""The space of a call of Kernel Tuner."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tuner.door import generated_sources
from tuner.door.calls import compiler_options, geometry, macros, script_restrictions
from tuner.door.calls.arguments import Array, ScriptArgument
from tuner.door.calls.call import ELSEWHERE, Call
from tuner.errors import RequestError
from tuner.quoting import quoted
from tuner.space import model
from tuner.space.computation import Operation
from tuner.space.python.space import PythonSpace
from tuner.space.values import python_function
from tuner.space.values.forms import PythonReference

MUTANTS = ["zeros", "shift", "replaced", "rounded_inputs", "rounded_outputs"]
RELATIVE = 1e-5  # the relative part of numpy.allclose, which Kernel Tuner compares with
DEFAULT_THREADS = 256  # in x, where no parameter gives them
_UNROLL = "loop_unroll_factor"
NONE = "tuner_no_parameter"  # of a call without parameters: a space has at least one

CHECK = """\
import pathlib

import numpy

FOLDER = pathlib.Path(__file__).parent


def expected(**arrays):
    return {{name: numpy.load(FOLDER / f"{{name}}.answer.npy") for name in {names!r}}}
"""


def space(
    call: Call,
    arguments: Sequence[ScriptArgument],
    answers: Mapping[str, Array],
    derive: Mapping[str, Any] | None,
    atol: float,
    poisoned: Iterable[str],
    restrictions: Iterable[Any],
    folder: Path,
    name: str,
    functions: bool = True,
) -> tuple[PythonSpace, model.Space]:
    """The space of a call, and what is tuned: it also has the sources that a function of the script makes.

    answers: the expected contents of arrays, by name.
    derive: the derived value that a `verify` function computes, in place of answers.
    poisoned: the arrays with an answer whose content before a run the kernel does not need.
    restrictions: those of the call.
    folder: for files of arrays and answers; it must exist as long as the space is tuned.
    name: that of the space.
    functions: whether functions may compute the grid; if not, it is one block where they would, and the space is for a
        file.

    Raises RequestError for what is not supported, and SpaceError for what a space cannot say.
    """
    grid = geometry.grid(call)
    operation = _operation(grid.sizes, arguments, answers, derive, atol, frozenset(poisoned), folder)
    has_grid = call.language != "c"
    options, include = compiler_options.of(call)
    first = *compiler_options.added(call), *compiler_options.of_library(call)
    returns_time = call.language == "c" and returned(call) == "float"
    if not functions:
        grid = replace(grid, blocks=["1" if each in grid.computed else each for each in grid.blocks], computed={})
    computed = grid.computed if has_grid else {}
    made = PythonSpace(
        title=f"{call.kernel_name} of a script of Kernel Tuner",
        name=name,
        folder=folder,
        operation=operation,
        kernel=call.kernel(),
        source=_source(call, call.text) if functions else _relative(_source(call, call.text), call, folder),
        include=include or None,
        languages=[call.language],
        parameters=_parameters(call),
        restrictions=[*map(functools.partial(script_restrictions.of, call), restrictions)] or None,
        derived={**dict.fromkeys(computed, 1), **_derived(call, grid)} or None,
        grid=grid.blocks if has_grid else None,
        block=_block(call) if has_grid else None,
        shared_memory=_shared_memory(call),
        compile_options={call.language: options} if options else None,
        timing="returned" if returns_time else None,
    )
    tuned = _completed(made.model, call, computed, [*first, *options])
    if call.generator is not None or not macros.are_options(call):
        generated = generated_sources.written(call, made.model, _source, folder)
        return made, replace(tuned, generated=generated)
    return made, tuned


def _completed(made: model.Space, call: Call, computed: Mapping[str, Any], options: Sequence[str]) -> model.Space:
    """The space with what no space file can say: functions that compute the grid, and all options of the compiler."""
    return replace(
        made,
        operation=_tuned(made.operation),
        derived={**made.derived, **computed},
        compile_options={call.language: (*options,)} if options else {},
        # A grid that is too large fails when it is tried: to exclude it, functions would be asked for all grids.
        restrictions=tuple(each for each in made.restrictions if not each.that.names & computed.keys()),
    )


def _operation(
    sizes: Mapping[str, int],
    arguments: Sequence[ScriptArgument],
    answers: Mapping[str, Array],
    derive: Mapping[str, Any] | None,
    atol: float,
    poisoned: frozenset[str],
    folder: Path,
) -> dict[str, Any]:
    """The `operation:` of a call, whose answers it writes to the folder. The arguments are those of `space`."""
    reference: Any = "none"
    if answers:
        for each, content in answers.items():
            np.save(folder / f"{each}.answer.npy", content)
        (folder / "check.py").write_text(CHECK.format(names=sorted(answers)), encoding="utf-8")
        reference = {"python": "check.py:expected"}
    if derive is not None:
        reference = dict.fromkeys(derive, 1)
    compared = {*answers, *_judged(derive or {}, folder)}
    declared = [each.declared(folder, _role(each, answers, poisoned), each.name in compared) for each in arguments]
    operation: dict[str, Any] = {"sizes": sizes, "arguments": declared, "reference": reference}
    if derive is not None:
        operation |= {"derive": derive, "accept": MUTANTS}
    if answers:
        operation |= {"tolerance": {"atol": atol, "rtol": RELATIVE}, "accept": MUTANTS}
    return operation


def _tuned(operation: Operation) -> Operation:
    """An operation with what no space file may say: a script's own `verify` is not questioned, and may accept an output
    that no kernel has written; the answers are those of the script's arrays, whatever is passed to `check.py`."""
    reference = operation.reference
    if isinstance(reference, PythonReference):
        reference = replace(reference, is_fixed=True)
    return replace(operation, accept=(*operation.accept, "poison"), reference=reference)


def _role(argument: ScriptArgument, answers: Mapping[str, Array], poisoned: frozenset[str]) -> str:
    if argument.symbol or (argument.is_constant and argument.name not in answers):
        return "in"
    return "out" if argument.name in poisoned else "inout"


def _judged(derive: Mapping[str, Any], folder: Path) -> set[str]:
    """The arrays that the functions of `derive` ask for."""
    functions = (python_function.parse(each["python"], folder) for each in derive.values())
    return {name for function in functions for name in python_function.parameters(function) or ()}


def _parameters(call: Call) -> dict[str, list[Any]]:
    """The parameters with plain values, each once. Raises RequestError for one without values."""
    plain: dict[str, list[Any]] = {}
    for name, values in call.parameters.items():
        each = [value.item() if isinstance(value, np.generic) else value for value in values]
        if not each:
            raise RequestError(f"tune_params: {name} has no values; give it at least one")
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise RequestError(f"tune_params: {quoted(name)} is not a name; use letters, digits and _")
        plain[name] = list(dict.fromkeys(each))
    return plain or {NONE: [0]}


def _source(call: Call, text: str, config: Mapping[str, Any] | None = None) -> Path | str:
    """The kernel's file, or its text where that must be changed.

    config: the configuration whose source it is, if each has its own.
    """
    heading = macros.heading(call, config)
    unroll = [name for name in call.parameters if _UNROLL in name]
    if call.language == "c" and 'extern "C"' not in text:
        return f'{heading}extern "C" {{\n#line 1\n{text}\n}}\n'
    if call.language == "cuda" and any(re.search(rf"#pragma\s+unroll\s+{name}\b", text) for name in unroll):
        return heading + _with_unrolling(text, unroll)
    return f"{heading}{text}" if heading else call.file or text


def _relative(source: Path | str, call: Call, folder: Path) -> Path | str:
    """A source for a file that may be moved with it: relative to the folder, unless the script has a whole path
    to elsewhere than below the current folder."""
    is_named = isinstance(source, Path) and (not os.path.isabs(call.primary) or source.is_relative_to(Path.cwd()))
    return Path(os.path.relpath(source, folder)) if is_named else source


def _with_unrolling(text: str, names: Sequence[str]) -> str:
    """The text with each `#pragma unroll` by a parameter under a condition: Kernel Tuner leaves it out if that is 0."""
    for name in names:
        text = re.sub(
            rf"^[ \t]*#pragma[ \t]+unroll[ \t]+{name}\b[^\n]*$",
            lambda match: f"#if {name} != 0\n{match[0]}\n#endif",  # noqa: B023
            text,
            flags=re.MULTILINE,
        )
    return text


def _derived(call: Call, grid: geometry.ScriptGrid) -> dict[str, Any]:
    """What Kernel Tuner defines beside the parameters, as far as the source or what it includes may mention it."""
    blocks = dict(zip(("grid_size_x", "grid_size_y", "grid_size_z"), [*grid.blocks, "1", "1"], strict=False))
    threads = dict(zip(call.block_names, (DEFAULT_THREADS, 1, 1), strict=True))
    if call.defines is not None:
        return {}
    known: dict[str, Any] = {**blocks, **threads, "kernel_tuner": 1}
    includes = re.search(r'^[ \t]*#[ \t]*include[ \t]*"', call.text, re.MULTILINE) is not None
    return {
        name: value
        for name, value in known.items()
        if name not in call.parameters and (includes or re.search(rf"\b{name}\b", call.text))
    }


def _block(call: Call) -> list[str]:
    block = [
        name if name in call.parameters else str(size)
        for name, size in zip(call.block_names, (DEFAULT_THREADS, 1, 1), strict=True)
    ]
    while len(block) > 1 and block[-1] == "1":
        block.pop()
    return block


def _shared_memory(call: Call) -> str | None:
    size = (call.smem_args or {}).get("size")
    if size is None:
        return None
    if callable(size):
        raise RequestError(f"smem_args: size is a function; write an expression of parameters, or {ELSEWHERE}")
    return f"int({size})" if isinstance(size, str) else str(int(size))


def returned(call: Call) -> str | None:
    """The type of the real number that the function in C returns, which is its time; None if it returns none."""
    found = re.search(rf"\b(float|double)\s+{re.escape(call.kernel_name)}\s*\(", call.text)
    return found and found[1]
