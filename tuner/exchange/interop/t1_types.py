"""Type checks of the members of a T1 file that tuner reads."""

from collections.abc import Iterator, Mapping
from typing import Any

from tuner.quoting import quoted

_TEXT, _NUMBER, _FORMULA = (str,), (int, float), (str, int, float)
_KERNEL = {
    **dict.fromkeys(("Language", "KernelName", "KernelFile", "GlobalSizeType"), _TEXT),
    **dict.fromkeys(("CompilerOptions", "GridDivX", "GridDivY", "GridDivZ", "Arguments"), (list,)),
    **dict.fromkeys(("GlobalSize", "LocalSize"), (dict,)),
    "SharedMemory": _FORMULA,
}
_ARGUMENT = {
    **dict.fromkeys(("Name", "Type", "MemoryType", "AccessType", "MemType"), _TEXT),
    "FillValue": _NUMBER,
    "Size": _FORMULA,
}
_PARAMETER = {"Name": _TEXT, "Values": (str, list), "Default": _FORMULA}
_CONDITION = {"Expression": _TEXT}
_WORDS = {str: "a text", int: "a number", list: "a list", dict: "an object"}


def faults(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The path of each value of a wrong type, with the type that is needed. Missing and null values are no faults."""
    kernel, space = data["KernelSpecification"], data.get("ConfigurationSpace") or {}
    yield from _of(data, "", {"ConfigurationSpace": (dict,), "General": (dict,)})
    yield from _of(kernel, "KernelSpecification", _KERNEL)
    for key in ("CompilerOptions", "GridDivX", "GridDivY", "GridDivZ"):
        yield from _of_items(kernel.get(key), f"KernelSpecification.{key}", _FORMULA)
    for key in ("GlobalSize", "LocalSize"):
        yield from _of(kernel.get(key) or {}, f"KernelSpecification.{key}", dict.fromkeys("XYZ", _FORMULA))
    yield from _of_entries(kernel.get("Arguments"), "KernelSpecification.Arguments", _ARGUMENT)
    yield from _of(space, "ConfigurationSpace", {"TuningParameters": (list,), "Conditions": (list,)})
    for key, types in (("TuningParameters", _PARAMETER), ("Conditions", _CONDITION)):
        yield from _of_entries(space.get(key), f"ConfigurationSpace.{key}", types)


def _of(data: Mapping[str, Any], where: str, types: Mapping[str, tuple[type, ...]]) -> Iterator[tuple[str, str]]:
    for key, allowed in types.items():
        yield from _of_items([data.get(key)], f"{where}.{key}".lstrip("."), allowed, numbered=False)


def _of_items(items: Any, where: str, allowed: tuple[type, ...], numbered: bool = True) -> Iterator[tuple[str, str]]:
    for position, item in enumerate(items or []):
        if item is not None and not isinstance(item, allowed):
            words = " or ".join(word for kind, word in _WORDS.items() if kind in allowed)
            yield f"{where}.{position}" if numbered else where, f"{quoted(item)}; {words} is needed"


def _of_entries(entries: Any, where: str, types: Mapping[str, tuple[type, ...]]) -> Iterator[tuple[str, str]]:
    yield from _of_items(entries, where, (dict,))
    for position, entry in enumerate(entries or []):
        yield from _of(entry or {}, f"{where}.{position}", types)
