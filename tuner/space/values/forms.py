"""What may say which answers are right: the forms of an operation's `reference`, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tuner.space.texts import config_text
from tuner.space.values.python_function import PythonFunction

if TYPE_CHECKING:
    from tuner.space.expressions import Expression

Extents = tuple["Expression", "Expression", "Expression"]


@dataclass(frozen=True)
class ExpressionReference:
    """An expression for each output."""

    kind: ClassVar[str] = "expression"
    outputs: Mapping[str, Expression]

    @property
    def meaning(self) -> Any:
        """What a signature takes of it; of the other forms too."""
        return sorted((name, expression.text) for name, expression in self.outputs.items())


@dataclass(frozen=True)
class PythonReference:
    """A function in Python of the operation's arrays, sizes and options."""

    kind: ClassVar[str] = "python"
    function: PythonFunction

    @property
    def meaning(self) -> Any:
        return (self.kind, str(self.function))


@dataclass(frozen=True)
class KernelReference:
    """A kernel without parameters, in `source` or in the space's own. It takes the `arguments` of these names; grid and
    block are x, y, z."""

    kind: ClassVar[str] = "kernel"
    notice: ClassVar[str] = "compared with a kernel"
    kernel: str
    source: Path | None
    arguments: tuple[str, ...]
    grid: Extents
    block: Extents

    @property
    def meaning(self) -> Any:
        extents = [extent.text for extent in (*self.grid, *self.block)]
        return (self.kind, self.kernel, self.source and self.source.name, self.arguments, extents)

    @property
    def text(self) -> str:
        """What it compares with, in full; of a configuration too."""
        return f"compared with the kernel {self.kernel}"


@dataclass(frozen=True)
class ConfigReference:
    """A configuration of the space itself."""

    kind: ClassVar[str] = "config"
    notice: ClassVar[str] = "compared with a configuration of its own"
    config: Mapping[str, Any]

    @property
    def meaning(self) -> Any:
        return (self.kind, sorted(self.config.items()))

    @property
    def text(self) -> str:
        return f"{self.notice}: {config_text(self.config)}"


@dataclass(frozen=True)
class NoReference:
    """Nothing does: outputs are not compared."""

    kind: ClassVar[str] = "none"

    @property
    def meaning(self) -> Any:
        return self.kind


Reference = ExpressionReference | PythonReference | KernelReference | ConfigReference | NoReference
# What is said of results whose answers came from code that may be wrong itself, by the kind of the reference.
NOTICES = {form.kind: form.notice for form in (KernelReference, ConfigReference)}
