"""Parse the sizes and options of a problem as users write them, and format them in the same way."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence, Set

import numpy as np

from tuner.errors import RequestError
from tuner.quoting import quoted, shown
from tuner.space.chosen_types import Types, defaults, dtype_of
from tuner.space.computation import Operation
from tuner.space.texts import options_text, short_size

MAX_SIZE = 2**63 - 1
Size = str | int | Sequence[int] | Mapping[str, int]


def parse_size(text: Size, operation: Operation, types: Types | None = None) -> dict[str, int]:
    """Parse sizes: `4096`, `4096x2048x1024`, `M=100,N=37,K=53` or `1000,batch=100`, a sequence, or a dictionary.

    A single number sets every size that has no default; several numbers set the sizes in order. Both skip the sizes
    that are named, as in `32,batch=1000`. `types` are the chosen types, the defaults if None. Raises RequestError for a
    size that is unknown, missing, not a whole number from 1 to MAX_SIZE, or too large for the kernel's scalar.
    """
    no_sizes = isinstance(text, Mapping) and not text
    if isinstance(text, Mapping):
        text = ",".join(f"{name}={value}" for name, value in text.items())
    elif not isinstance(text, str | int):
        text = "x".join(map(str, text)) if isinstance(text, Sequence) else text
    text = str(text)
    values: dict[str, int] = {}
    parts = [] if no_sizes else text.replace(" ", "").split(",")
    named = {part.rpartition("=")[0] for part in parts}
    for part in parts:
        for name, value in _parse_part(part, text, operation, named).items():
            if name in values:
                raise RequestError(f"size {quoted(text)}: {name} is given twice; {_examples(operation)}")
            values[name] = value
    default = {name: size for name, size in operation.sizes.items() if size is not None}
    missing = [name for name in operation.sizes if name not in values and name not in default]
    if missing:
        whole = ",".join(f"{name}={value}" for name, value in (values | dict.fromkeys(missing, 1024)).items())
        raise RequestError(f"size {quoted(text)}: {', '.join(missing)} not given; write {whole}")
    sizes = {name: values[name] if name in values else default[name] for name in operation.sizes}
    _check_scalars(sizes, operation, defaults(operation) if types is None else types)
    return sizes


def _parse_part(part: str, text: str, operation: Operation, named: Set[str]) -> dict[str, int]:
    """The sizes in one `part` of `text`: `4096`, `4096x2048x1024` or `K=53`. Numbers skip the sizes in `named`."""
    names = [name for name in operation.sizes if name not in named]
    required = [name for name in _required(operation) if name not in named]
    name, equals, value = part.rpartition("=")
    if equals:
        if name not in operation.sizes:
            near = difflib.get_close_matches(name, list(operation.sizes), n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(operation.sizes)}"
            raise RequestError(f"size {quoted(text)}: no size {quoted(name)}; {hint}")
        return {name: _parse_number(value, text, operation)}
    values = [_parse_number(v, text, operation) for v in part.split("x")]
    if len(values) == 1 and names:
        return dict.fromkeys(required or names, values[0])
    if len(values) not in (len(required), len(names)):
        counted = f"{len(values)} number{'s' if len(values) > 1 else ''}"
        lists = dict.fromkeys(", ".join(each) for each in (required, names) if each)
        left = f"for {', or for '.join(lists)}" if lists else "beside sizes that are all named"
        raise RequestError(f"size {quoted(text)}: {counted} {left}; {_examples(operation)}")
    return dict(zip(names if len(values) == len(names) else required, values, strict=True))


def _parse_number(number: str, text: str, operation: Operation) -> int:
    digits = number.lstrip("0")
    if not re.fullmatch("[0-9]+", number) or not digits:
        problem = "is not a whole number from 1 on"
    elif len(digits) > len(str(MAX_SIZE)) or int(digits) > MAX_SIZE:
        problem = f"is too large; a size is at most {MAX_SIZE}"
    else:
        return int(digits)
    part = quoted(number) if number else "an empty part"
    raise RequestError(f"size {quoted(text)}: {part} {problem}; {_examples(operation)}")


def _required(operation: Operation) -> list[str]:
    return [name for name, default in operation.sizes.items() if default is None]


def _examples(operation: Operation) -> str:
    required = _required(operation)
    ways = dict.fromkeys(["1024", "x".join(["1024"] * len(required)), ",".join(f"{name}=1024" for name in required)])
    *first, last = filter(None, ways)  # where all sizes have defaults, one way is left
    return f"write {', '.join(first)} or {last}" if first else f"write {last}"


def _check_scalars(sizes: Mapping[str, int], operation: Operation, types: Types) -> None:
    """Raise RequestError for a size that does not fit the kernel's scalar of its name."""
    for argument in operation.scalars:
        element = dtype_of(argument, types)
        if not element.holds(sizes.get(argument.name, 0)):
            raise RequestError(
                f"size {argument.name} = {sizes[argument.name]} does not fit the kernel's {element.name}; "
                f"at most {element.high} is allowed; use a smaller size, or a wider dtype in the space file and source"
            )


def parse_options(settings: Mapping[str, float], operation: Operation, types: Types | None = None) -> dict[str, float]:
    """The operation's options, with `settings` in place of defaults. `types` are the chosen types.

    Raises RequestError for an unknown option, and for a value that does not fit the kernel's argument of that name.
    """
    types = defaults(operation) if types is None else types
    for name, value in settings.items():
        if name not in operation.options:
            names = ", ".join(operation.options)
            known = f"there are: {names}" if names else "the space file declares none under `options:`"
            known = "it is an array: pass arrays by position" if name in {a.name for a in operation.arrays} else known
            raise RequestError(f"option {shown(name)}: no such option; {known}")
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not _is_finite(value):
            raise RequestError(f"option {name} = {quoted(value)}: a finite number is needed")
    options = {**operation.options, **{name: float(value) for name, value in settings.items()}}
    for name, value in options.items():
        for argument in operation.takers[name]:
            if not (element := dtype_of(argument, types)).holds(value):
                raise RequestError(
                    f"option {name} = {quoted(settings.get(name, value))} does not fit the kernel's {element.name}"
                )
    return options


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def problem_words(
    operation: Operation, sizes: Mapping[str, int], types: Mapping[str, str], options: Mapping[str, float]
) -> str:
    """A problem as on the command line: `4096 --type real=float16 --set alpha=2`, without what is at its default."""
    defaults = {name: allowed[0] for name, allowed in operation.types.items()}
    words = [f"--type {name}={value}" for name, value in types.items() if value != defaults.get(name)]
    words += [f"--set {text}" for text in options_text(options, operation.options).split(", ")[1:]]
    return " ".join([short_size(sizes), *words])
