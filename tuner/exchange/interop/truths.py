"""Booleans as values of parameters: Kernel Tuner defines their macros as `True` and `False`, tuner as 1 and 0."""

from collections.abc import Iterable, Mapping


def names_of_truths(parameters: Mapping[str, Iterable[object]]) -> list[str]:
    """The parameters with a value that is true or false."""
    return [name for name, values in parameters.items() if any(isinstance(value, bool) for value in values)]


def truths_differ(names: Iterable[str]) -> str:
    """A warning that Kernel Tuner and tuner may compile different code, because these parameters have booleans."""
    return (
        f"{', '.join(names)}: true and false are the macros `True` and `False` in Kernel Tuner, which are 0 in `#if`, "
        "but 1 and 0 in tuner, where a flag that is false is undefined; declare 1 and 0 in both if the kernel reads "
        "them so"
    )
