"""Export as a patch: the best values, in the lines of the user's files that define them."""

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tuner.errors import RequestError
from tuner.exchange.exports import loop_lines
from tuner.exchange.exports.request import Export, ExportRequest, write
from tuner.exchange.exports.target import Target, choose_target
from tuner.languages import OF_PROGRAMS
from tuner.quoting import shown
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.parsing import problem_words
from tuner.space.sources import definitions, includes, rendering, source_text
from tuner.space.texts import config_text

_DEFINE = re.compile(r"\s*#\s*define\b")
_EXPORTED = "Written by `tune export"
_MOST_FILES, _MOST_BYTES = 200, 1 << 20  # that are searched for further definitions


def export(request: ExportRequest) -> Export:
    """Write the patch for one device. Raises RequestError if there is no such device, if no file of the user's defines
    a parameter, or if all hold the best values already."""
    target = choose_target(request.problem, request.device)
    path = request.path(".patch")
    return Export.of_targets([write(path, text(target, path.name))], [target])


def text(target: Target, name: str) -> str:
    """The patch in the unified format, below lines for the reader, which `patch` and `git apply` skip."""
    space = target.problem.space
    instance = Instance(space, target.best.config, target.scope)
    values = rendering.macros(instance)
    before = {file: file.read_bytes().decode("utf-8", "surrogateescape") for file in _files(space)}
    names = frozenset(source_text.macro_names(space))
    found = {file: definitions.of(content, names, with_defaults=names) for file, content in before.items()}
    defined = frozenset[str]().union(*(each.names for each in found.values()))
    if not defined:
        listed = shown(", ".join(file.name for file in before))
        what = f"{listed} defines no" if listed else "no file of yours defines a"
        raise RequestError(f"--to patch: {what} parameter of {space.name}; use --to header")
    after = {file: each.replaced(before[file], values) for file, each in found.items()}
    if before == after:
        listed = shown(", ".join(sorted(defined)))
        if not target.best.is_exact:
            problem = target.problem
            words = problem_words(space.operation, problem.sizes, problem.types, problem.options)
            why = "nothing" if target.best.record is None else f"nothing at {problem.code_text}"
            first = f"{why} was measured on {target.device.name}; run `tune {shown(space.name)} {words}` first"
            raise RequestError(f"--to patch: {listed} would not change, for {first}")
        have = "has the best value" if len(defined) == 1 else "have the best values"
        raise RequestError(f"--to patch: {listed} {have} already")
    folder = Path(os.path.commonpath([file.parent for file in before]))
    about = [
        f"{space.name} at {target.problem.code_text} for {target.device.name}: {target.best.match}.",
        config_text(target.best.config),
        *_launches(instance),
        *_elsewhere(values, defined),
        *_of_host(space, before, defined),
        *_beside(before, defined, rendering.kernels_of(instance)),
        f"To apply it: patch -d {folder} -p1 < {name}",
    ]
    changes = (
        line
        for file in before
        for line in difflib.unified_diff(
            before[file].splitlines(keepends=True),
            after[file].splitlines(keepends=True),
            f"a/{file.relative_to(folder)}",
            f"b/{file.relative_to(folder)}",
        )
    )
    ended = (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in changes)
    return "".join(f"# {line}\n" for line in [*about, "Written by `tune export --to patch`."]) + "".join(ended)


def _files(space: Space) -> list[Path]:
    """The kernel files and the headers that they include, without shipped ones."""
    every = dict.fromkeys(file for path in space.sources for file in includes.files(path, space.include))
    return [file for file in every if not source_text.is_shipped(file)]


def _launches(instance: Instance) -> Iterator[str]:
    steps = zip(instance.space.steps, rendering.kernels_of(instance), instance.geometries, strict=True)
    if instance.problem.language == "c":
        return
    for _, kernel, geometry in steps:
        shared = f", {geometry.shared_memory} bytes of dynamic shared memory" if geometry.shared_memory else ""
        most = "at most " if instance.space.order else ""
        yield f"Launch {kernel} with grid {most}{geometry.grid}, block {geometry.block}{shared}."
    yield from loop_lines.lines(instance)


def _elsewhere(values: Mapping[str, str], defined: frozenset[str]) -> Iterator[str]:
    """The macros that no file defines."""
    options = " ".join(f"-D{name}={value}" for name, value in values.items() if name not in defined)
    if options:
        yield f"No file defines these; give them to the compiler: {options}"


def _of_host(space: Space, files: Mapping[Path, str], defined: frozenset[str]) -> Iterator[str]:
    """The lines outside the kernels' code that read a parameter: they get its new value, too."""
    word = re.compile(rf"\b(?:{'|'.join(sorted(defined))})\b")
    places = list[str]()
    for path in [path for path in space.sources if path in files]:
        device = includes.lines(includes.blanked(source_text.device(space, path)), path.name)
        for number, line in enumerate(includes.blanked(files[path]).splitlines(), 1):
            if word.search(line) and not device.get(number, "").strip() and not _DEFINE.match(line):
                places.append(f"  {path.name}:{number}: {line.strip()}")
    if places:
        yield "Host code that reads them, and gets the new values:"
        yield from places


def _beside(files: Mapping[Path, str], defined: frozenset[str], kernels: Iterable[str]) -> Iterator[str]:
    """The other files in the same folders that name a kernel and define a parameter, such as a host program in C++
    with macros of its own."""
    names_kernel, places = re.compile(rf"\b(?:{'|'.join(map(re.escape, kernels))})\b"), list[str]()
    for folder in dict.fromkeys(path.parent for path in files):
        others = [path for path in sorted(folder.iterdir()) if path.suffix in OF_PROGRAMS and path not in files]
        for path in others[:_MOST_FILES]:
            if not path.is_file() or path.stat().st_size > _MOST_BYTES or not os.access(path, os.R_OK):
                continue
            content = path.read_bytes().decode("utf-8", "surrogateescape")
            if not names_kernel.search(content) or _EXPORTED in content:
                continue
            if names := sorted(definitions.of(content, defined, with_defaults=defined).names):
                places.append(f"  {path.name}: {', '.join(names)}")
    if places:
        yield "Other files that define them, which this patch leaves as they are:"
        yield from places
