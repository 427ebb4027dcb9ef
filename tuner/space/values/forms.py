"""The forms of an operation's `reference:`, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tuner.classes import dataclass
from tuner.space.texts import config_text
from tuner.space.values.function_object import FunctionObject
from tuner.space.values.python_function import PythonFunction

if TYPE_CHECKING:
    from tuner.space.expressions import Expression

Extents = tuple["Expression", "Expression", "Expression"]


@dataclass(frozen=True)
class ExpressionReference:
    """One expression per output."""

    kind: ClassVar[str] = "expression"
    outputs: Mapping[str, Expression]

    @property
    def meaning(self) -> Any:
        """The part of a signature that describes the reference. All forms have it."""
        return sorted((name, expression.text) for name, expression in self.outputs.items())


@dataclass(frozen=True)
class PythonReference:
    """A Python function of the operation's arrays, sizes and options.

    is_fixed: it returns the answers of the only contents that the arrays have before a run, and reads none of them.
    """

    kind: ClassVar[str] = "python"
    function: PythonFunction | FunctionObject
    is_fixed: bool = False

    @property
    def meaning(self) -> Any:
        return (self.kind, str(self.function))


@dataclass(frozen=True)
class KernelReference:
    """A kernel without tuning parameters.

    source: its file; None for the space's own.
    arguments: the names of its arguments, in order.
    grid, block: in x, y, z.
    """

    kind: ClassVar[str] = "kernel"
    notice: ClassVar[str] = "outputs compared with a kernel"
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
        """The full notice about the reference; ConfigReference has it, too."""
        return f"outputs compared with the kernel {self.kernel}"


@dataclass(frozen=True)
class ConfigReference:
    """A configuration of the same space."""

    kind: ClassVar[str] = "config"
    notice: ClassVar[str] = "outputs compared with one of its configurations"
    config: Mapping[str, Any]

    @property
    def meaning(self) -> Any:
        return (self.kind, sorted(self.config.items()))

    @property
    def text(self) -> str:
        return f"{self.notice}: {config_text(self.config)}"


@dataclass(frozen=True)
class NoReference:
    """No reference: outputs are not compared."""

    kind: ClassVar[str] = "none"

    @property
    def meaning(self) -> Any:
        return self.kind


Reference = ExpressionReference | PythonReference | KernelReference | ConfigReference | NoReference
# Notices printed with results whose answers were computed by code that may itself be wrong, by kind of reference.
NOTICES = {form.kind: form.notice for form in (KernelReference, ConfigReference)}
