"""Sizes, types, options and configurations as text for display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.space.config import Value


def size_text(sizes: Mapping[str, int]) -> str:
    """`M=100, N=37, K=53`, in the order of the operation."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


def problem_text(sizes: Mapping[str, int], types: Mapping[str, str]) -> str:
    """`n=4096, real=float16`: the sizes, and the chosen types if the kernel has any."""
    return size_text(sizes) + types_text(types)


def full_problem_text(
    sizes: Mapping[str, int], types: Mapping[str, str], options: Mapping[str, float], defaults: Mapping[str, float]
) -> str:
    """`n=4096, real=float16, a=2`: `problem_text` with the options that are not at their defaults."""
    return problem_text(sizes, types) + options_text(options, defaults)


def types_text(types: Mapping[str, str]) -> str:
    """`, real=float16`, a suffix for a size; empty if the kernel has no types to choose."""
    return "".join(f", {name}={value}" for name, value in types.items())


def options_text(options: Mapping[str, float], defaults: Mapping[str, float]) -> str:
    """`, a=2`, a suffix for a size: the options that are not at their defaults; empty if all are."""
    return "".join(f", {name}={number_text(v)}" for name, v in options.items() if v != defaults.get(name))


def options_texts(
    options: Mapping[str, float], others: Mapping[str, float], defaults: Mapping[str, float]
) -> tuple[str, str]:
    """`, a=2` and `, a=1`: two sets of options, each without those that both have at their defaults."""
    alike = {name: value for name, value in defaults.items() if options.get(name) == others.get(name)}
    return options_text(options, alike), options_text(others, alike)


def number_text(number: float) -> str:
    """The shortest text that parses to the same number: `2`, `0.1`, `1e-05`."""
    return repr(float(number)).removesuffix(".0")


def config_text(config: Mapping[str, Value]) -> str:
    """`block_size_x=32 tile_size_x=4`: a configuration for display."""
    return " ".join(f"{name}={value}" for name, value in config.items()) or "(no parameters)"


def short_size(sizes: Mapping[str, int]) -> str:
    """The sizes as on the command line: 4096 if all are equal, else 4096x2048x1024; with a batch, 1000,batch=100."""
    core = {name: value for name, value in sizes.items() if name != "batch"} or sizes
    text = str(next(iter(core.values()))) if len(set(core.values())) == 1 else "x".join(map(str, core.values()))
    # A trailing batch has the default 1.
    is_left_out = "batch" not in sizes or (sizes["batch"] == 1 and [*sizes][-1] == "batch")
    return text if core is sizes or is_left_out else f"{text},batch={sizes['batch']}"
