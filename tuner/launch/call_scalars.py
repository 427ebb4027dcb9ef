"""The scalars of a kernel's calls: the options of a call, packed in the form that the device takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tuner.errors import RequestError
from tuner.quoting import quoted
from tuner.space import operation, parsing

if TYPE_CHECKING:
    from tuner.devices.program import Program

MOST_OPTIONS = 64  # sets of options whose packed scalars are cached


class CallScalars:
    """The scalars of a loaded program. `plain` are those of a call without options."""

    def __init__(self, program: Program, leading: Mapping[str, int] | None) -> None:
        """`leading` are leading dimensions; None for contiguous arrays."""
        self._program, self._leading = program, leading
        self._by_options: dict[str, Any] = {}
        self.plain = program.device.packed(self.values({}))

    def packed(self, options: Mapping[str, float]) -> Any:
        """The packed scalars with these options, cached because programs repeat their options."""
        key = repr(options)  # distinguishes 1 from True, and 0.0 from -0.0
        scalars = self._by_options.get(key)
        if scalars is None:
            scalars = self._program.device.packed(self.values(options))
            if len(self._by_options) >= MOST_OPTIONS:
                self._by_options.clear()
            self._by_options[key] = scalars
        return scalars

    def values(self, options: Mapping[str, float]) -> Sequence[Any]:
        """The scalars with these options, as NumPy scalars in the kernel's order. Raises RequestError for an invalid
        option."""
        space, scope = self._program.space, self._program.scope
        if options:
            values = parsing.parse_options(options, space.operation, scope.types)
            overridden = replace(scope, options={**scope.options, **{name: values[name] for name in options}})
            for name in options.keys() & space.fixed_options:
                if overridden.passed_options[name] != scope.passed_options[name]:
                    raise RequestError(
                        f"option {name} = {quoted(options[name])}: the code or the shape of an array depends on it, so "
                        f"it is fixed when the kernel is loaded; load it with options={{{name!r}: ...}}"
                    )
            scope = overridden
        return operation.scalars(space.operation, scope, self._leading)
