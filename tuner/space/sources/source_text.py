"""The text of a space's kernel files."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import paths
from tuner.space.expressions import braces
from tuner.space.sources import includes

if TYPE_CHECKING:
    from tuner.space.model import Space
    from tuner.space.sources.definitions import Definitions


def macro_names(space: Space) -> tuple[str, ...]:
    """The names of the macros: types, parameters and derived values.

    Names passed as template arguments are left out, because the source declares template parameters with these names.
    So are values that functions compute, because no file has declared their names. A Python file has no macros.
    """
    if space.python_language is not None:
        return ()
    template = set[str](space.computed).union(*(braces.template_names(step.kernel) for step in space.steps))
    names = (*space.operation.types, *space.parameters, *space.derived)
    return tuple(name for name in names if name not in template)


def of(space: Space, path: Path) -> str:
    """The text of one of `space.sources`, with includes expanded (see `includes.parts`), for checks.

    If the space is for CUDA alone, host code is left out, so neither the compiler nor the identity of the code sees it;
    but nvcc compiles the whole file. Macros that the file defines and a configuration replaces (see `definitions`) are
    not defined.
    """
    if space.python_language is not None:
        from tuner.space.values import python_function

        return python_function.text_of(path)
    return _replaced(space, path, {})


def device(space: Space, path: Path) -> str:
    """The text of one of `space.sources` without its host code, also if the compiler gets that."""
    return _device(of(space, path), space, path)


def canonical(space: Space, path: Path) -> str:
    """The text that identifies the code, without comments: what a configuration replaces has its own name as its value.

    Of a Python file, it has all that the kernels reach.
    """
    if space.python_language is not None:
        from tuner.space.jit import closure

        kernels = dict.fromkeys(step.kernel for step in space.steps if step.source == path)
        return "\0".join(closure.of(path, kernel).code for kernel in kernels)
    names = (*macro_names(space), *space.operation.sizes)
    return includes.without_comments(_replaced(space, path, {name: name for name in names}))


def rendered(
    space: Space, path: Path, macros: Mapping[str, str], sizes: Mapping[str, int], generated: Path | None = None
) -> str:
    """The text of one configuration, after its macros. Those that the file defines are in its lines instead, and so are
    the sizes that it defines.

    generated: the file with the configuration's own text, in place of `path`.
    """
    values = {**{name: str(size) for name, size in sizes.items()}, **macros}
    found = defined_in(space, path, generated)
    outside = {name: value for name, value in macros.items() if found is None or name not in found.names}
    text, start = [f'{includes.defined(outside)}#line 1 "{path.name}"\n'], 0
    for part in _parts(space, path, generated):
        if not isinstance(part, str):
            text.append(part.shielded(outside))
            start += len(part.include)
        else:
            text.append(part if found is None else found.replaced(part, values, start))
            start += len(part)
    return "".join(text)


def missing(space: Space, path: Path) -> list[str]:
    """A message for each header in quotes that was not found, and without which the compiler goes on."""
    if space.python_language is not None:
        return []
    from tuner.space.sources import missing_headers  # a launch does not need it

    options = (option[2:].partition("=")[0] for each in space.compile_options.values() for option in each)
    return missing_headers.faults(_parts(space, path), {*macro_names(space), *options})


def is_shipped(path: Path) -> bool:
    """Whether a file comes with this package."""
    return _is_within(path, paths.shipped("kernels"))


@functools.lru_cache(maxsize=256)
def _is_within(path: Path, folder: Path) -> bool:
    """Whether a file is in a folder, by whatever links to it. It is cached, because a choice at a new size asks several
    times."""
    return Path(os.path.normpath(path)).is_relative_to(folder) or path.resolve().is_relative_to(folder.resolve())


def defined_in(space: Space, path: Path, generated: Path | None = None) -> Definitions | None:
    """The definitions in a kernel file that configurations replace; None for a shipped one, which has none.

    generated: the file with the text, in place of `path`.
    """
    if is_shipped(path) or space.python_language is not None:
        return None
    from tuner.space.sources import definitions  # a launch of a shipped kernel does not need it

    text, macros = includes.joined(_parts(space, path, generated)), macro_names(space)
    sizes = frozenset(space.operation.sizes).difference(macros)
    names = sizes.union(macros)
    if _has_whole(space, path):  # host code may have variables of its own with these names
        found = definitions.of(_device(text, space, path), names, with_defaults=sizes)
        names = found.names.union(found.faults)
    return definitions.of(text, names, with_defaults=sizes)


def defined_sizes(space: Space) -> frozenset[str]:
    """The sizes that the sources define as macros or constants, so that each size has code of its own."""
    found = filter(None, (defined_in(space, path) for path in space.sources))
    return frozenset(name for each in found for name in each.names if name in space.operation.sizes)


def _replaced(space: Space, path: Path, values: Mapping[str, str]) -> str:
    text, found = includes.joined(_parts(space, path)), defined_in(space, path)
    return text if found is None else found.replaced(text, values)


def _parts(space: Space, path: Path, generated: Path | None = None) -> includes.Parts:
    """The text of a kernel file, or that of `generated` in its place, in parts."""
    is_cut = _may_have_host_code(space, path) and not _has_whole(space, path)
    return includes.parts(generated or path, space.include, _kernels(space, path) if is_cut else None)


def _may_have_host_code(space: Space, path: Path) -> bool:
    """Kernels that ship have no host code, and their launches need not look for it."""
    return tuple(space.languages) == ("cuda",) and not is_shipped(path)


def _has_whole(space: Space, path: Path) -> bool:
    """Whether the compiler gets a file with its host code. The identity of the code then has it, too: what kernels do
    may depend on it, as on functions that `--expt-relaxed-constexpr` lets kernels call."""
    return space.compiler_of("cuda") == "nvcc" and _may_have_host_code(space, path)


def _device(text: str, space: Space, path: Path) -> str:
    """A text of one of `space.sources` without the host code that it still has."""
    if not _has_whole(space, path):
        return text
    from tuner.space.sources import device_code  # only a file with host code needs it

    return device_code.of(text, _kernels(space, path))


def _kernels(space: Space, path: Path) -> tuple[str, ...]:
    """The patterns of the names of a file's kernels, and the words that are arguments of their templates."""
    kernels = [step.kernel for step in space.steps if step.source == path]
    arguments = {word for kernel in kernels for word in re.findall(r"[A-Za-z_]\w*", kernel.partition("<")[2])}
    chosen = {value for name in arguments for value in space.parameters.get(name, ()) if isinstance(value, str)}
    return (*dict.fromkeys(map(braces.pattern, kernels)), *sorted((arguments - space.parameters.keys()) | chosen))
