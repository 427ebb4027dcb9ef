"""What a call of Kernel Tuner says about a kernel and its problem."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from kernel_tuner import util

from tuner.classes import dataclass
from tuner.door.calls import script_functions
from tuner.errors import RequestError
from tuner.quoting import quoted

LANGUAGES = {"CUDA": "cuda", "CUPY": "cuda", "NVCUDA": "cuda", "OPENCL": "opencl", "C": "c"}
MOST_TRIED = 1000  # configurations for which a function is asked for a source
ELSEWHERE = "run this kernel with kernel_tuner itself"  # the advice for what is not supported


@dataclass(frozen=True)
class Call:
    """The arguments that `tune_kernel` and `run_kernel` share, with their names and meaning.

    parameters: `tune_params`; for `run_kernel`, one value for each name.
    grid_divisors: `grid_div_x`, `grid_div_y` and `grid_div_z`.
    """

    kernel_name: str
    kernel_source: Any
    problem_size: Any
    arguments: Sequence[Any]
    parameters: Mapping[str, Sequence[Any]]
    grid_divisors: tuple[Any, Any, Any] = (None, None, None)
    block_size_names: Sequence[str] | None = None
    lang: str | None = None
    device: int = 0
    platform: int = 0
    smem_args: Mapping[str, Any] | None = None
    cmem_args: Mapping[str, Any] | None = None
    texmem_args: Mapping[str, Any] | None = None
    compiler: str | None = None
    compiler_options: Sequence[str] | None = None
    defines: Mapping[str, Any] | None = None

    @staticmethod
    def of(given: Mapping[str, Any]) -> Call:
        """The call with the arguments of `tune_kernel`, by name."""
        names = (
            "kernel_name", "kernel_source", "problem_size", "arguments", "block_size_names", "lang", "device",
            "platform", "smem_args", "cmem_args", "texmem_args", "compiler", "compiler_options", "defines",
        )  # fmt: skip
        divisors = given["grid_div_x"], given["grid_div_y"], given["grid_div_z"]
        return Call(
            parameters=dict(given["tune_params"]), grid_divisors=divisors, **{name: given[name] for name in names}
        )

    def __post_init__(self) -> None:
        """Raise RequestError for what is not supported."""
        if self.texmem_args:
            raise RequestError(f"texmem_args: textures are not supported here; {ELSEWHERE}")
        if self.compiler is not None and self.language != "c":
            raise RequestError(
                f"compiler {quoted(self.compiler)}: only lang='C' has a choice of compilers; leave it out"
            )
        if self.language == "c" and self.file is not None and self.file.suffix == ".cu":
            raise RequestError(
                f"kernel_source {self.file}: host code in CUDA is not supported in lang='C'; {ELSEWHERE}"
            )
        if not len(self.arguments):
            raise RequestError(f"arguments: {self.kernel_name} takes none, which is not supported; {ELSEWHERE}")
        for name, values in self.parameters.items():
            _check_values(name, values)

    @property
    def primary(self) -> Any:
        """The kernel's source; a list of sources begins with it, and the others are files that it includes."""
        given = self.kernel_source
        return given[0] if isinstance(given, list | tuple) else given

    @property
    def generator(self) -> Callable[[dict[str, Any]], str] | None:
        """The function that makes the source of a configuration; None if the source is a text or a file."""
        primary = self.primary
        return primary if callable(primary) else None

    @cached_property
    def file(self) -> Path | None:
        """The file of the source; None if the source is a text or a function. Raises RequestError if there is none."""
        primary = self.primary
        if isinstance(primary, os.PathLike):
            return Path(primary).absolute()
        if not util.looks_like_a_filename(primary) or primary.lstrip().startswith("#"):  # a function, or a text
            return None
        if not os.path.isfile(primary):
            raise RequestError(f"kernel_source {quoted(primary)}: there is no such file; name one, or pass the source")
        return Path(primary).absolute()

    @cached_property
    def text(self) -> str:
        """The source. That of a function is of the first configuration for which it makes one. Raises RequestError."""
        if self.generator is not None:
            return self._generated(self.generator)
        if self.file is None:
            text = str(self.primary)
            if "(" not in text and not text.lstrip().startswith("#include"):
                raise RequestError(
                    f"kernel_source {quoted(text)}: no file in {Path.cwd()} and no text of a kernel; pass one of these"
                )
            return text if "\n" in text else f"{text}\n"  # which no path is
        try:
            return self.file.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise RequestError(f"kernel_source {self.file}: cannot be read: {error.strerror}") from None

    def _generated(self, generator: Callable[[dict[str, Any]], str]) -> str:
        """The text of one configuration. Restrictions may exclude those for which the function raises something."""
        first: RequestError | None = None
        for values in itertools.islice(itertools.product(*self.parameters.values()), MOST_TRIED):
            try:
                return script_functions.source(generator, dict(zip(self.parameters, values, strict=True)))
            except RequestError as error:
                first = first or error
        raise first or RequestError("tune_params: a parameter has no values; give it at least one")

    @cached_property
    def language(self) -> str:
        """The kernel's language, by its name in space files. Raises RequestError for one that is not supported."""
        if self.lang is None and self.generator is not None:
            raise RequestError("lang: the source is a function; say its language: lang='CUDA', 'OpenCL' or 'C'")
        given = util.detect_language(self.text) if self.lang is None else self.lang
        language = LANGUAGES.get(given.upper())
        if language is None:
            raise RequestError(f"lang {quoted(given)}: tuner compiles CUDA, OpenCL and C; {ELSEWHERE}")
        if language == "c" and "#pragma tuner start" in self.text:
            raise RequestError(f"kernel_source: directives of Kernel Tuner are not supported; {ELSEWHERE}")
        return language

    @cached_property
    def block_names(self) -> list[str]:
        """The names of the parameters that are the threads of a block in x, y, z."""
        names = list(self.block_size_names or [])
        util.append_default_block_size_names(names)
        return names[:3]

    def kernel(self) -> str:
        """The kernel's name in space files: parameters in it are in braces."""
        return braced(self.kernel_name, self.parameters)


def _check_values(name: str, values: Any) -> None:
    """Raise RequestError if these are no values of a parameter."""
    if isinstance(values, str) or not isinstance(values, Collection):
        raise RequestError(f"tune_params: {name} is {values!r}; write a list of its values")
    for value in values:
        is_word = isinstance(value, str) and value.isidentifier()
        if not is_word and not isinstance(value, bool | int | float | np.generic):
            words = "numbers, booleans and words of letters, digits and _"
            raise RequestError(f"tune_params: {name} has the value {value!r}; values are {words}")


def braced(text: str, parameters: Mapping[str, Any]) -> str:
    """`text` with each word that is a parameter in braces, where Kernel Tuner puts its value."""
    parts = re.split("([a-zA-Z0-9_]+)", text)
    return "".join(f"{{{part}}}" if part in parameters else part for part in parts)
