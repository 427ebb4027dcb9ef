"""`tuner.Space`: a space made of Python objects, with the words of a space file.

It imports pydantic and YAML only when a space is made.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.quoting import shown
from tuner.space import model
from tuner.space.config import Value

Condition = str | Callable[..., Any] | Mapping[str, Any]


class PythonSpace:
    """What a kernel computes, and its possible configurations.

    The keywords are the keys of a space file, with the same meaning; see docs/space-files.md. `tuner.tune`,
    `tuner.best` and `tuner.load` take a `Space` in place of a kernel's name.

    Attributes: `name`, under which its records are stored; `title`; `parameters`, the values of each.

    Example::

        import tuner

        space = tuner.Space(
            kernel="twice",
            source="void twice(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = FACTOR * x[i]; }",
            operation={
                "sizes": {"n": 1000},
                "arguments": [
                    {"name": "y", "dtype": "float32", "shape": ["n"], "role": "out"},
                    {"name": "x", "dtype": "float32", "shape": ["n"], "role": "in"},
                    {"name": "n", "dtype": "int32"},
                ],
                "reference": lambda x: 2 * x,
            },
            parameters={"FACTOR": [1, 2, 3]},
            restrictions=[lambda FACTOR: FACTOR > 1],
        )
        assert tuner.tune(space, device="host", progress=False).best == {"FACTOR": 2}
    """

    def __init__(
        self,
        *,
        operation: Mapping[str, Any] | str | os.PathLike[str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        title: str | None = None,
        name: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        kernel: str | None = None,
        steps: Sequence[Mapping[str, Any]] | None = None,
        source: str | os.PathLike[str] | None = None,
        include: Sequence[str | os.PathLike[str]] | None = None,
        languages: Sequence[str] | None = None,
        restrictions: Condition | Sequence[Condition] | None = None,
        derived: Mapping[str, Any] | None = None,
        requires: Mapping[str, Any] | None = None,
        grid: Any = None,
        grid_divisors: Mapping[str, Any] | None = None,
        block: Any = None,
        shared_memory: Any = None,
        cluster: Any = None,
        cooperative: bool | None = None,
        alignment: int | None = None,
        default: Mapping[str, Any] | None = None,
        compiler: str | None = None,
        timing: str | None = None,
        compile_options: Mapping[str, Sequence[str]] | None = None,
        extent: Any = None,
        arguments: Sequence[Mapping[str, Any]] | None = None,
        types: Mapping[str, Any] | None = None,
        source_note: str | None = None,
        **unknown: Any,
    ) -> None:
        """Check and build the space.

        Args:
            source: The path of the kernel's file, or the text of the kernel.
            restrictions: Expressions, functions, or dictionaries of `that` and `because`. A function gets the values of
                its parameters by name, or, if it has one parameter of another name, the configuration as a dictionary.
            name: The name in the store. By default, the name of the folder and that of the kernel.
            folder: What paths are relative to. By default, the current folder.
            operation: As in a space file. `reference` and `fill` may be functions. A `fill` may also be a NumPy array,
                or name one as its `file`.
            The others: As in a space file.

        Raises SpaceError with the key of the first error.
        """
        keys = {key: value for key, value in locals().items() if key not in ("self", "name", "folder", "unknown")}
        given = {key: value for key, value in {**keys, **unknown}.items() if value is not None}
        if isinstance(restrictions, str | Mapping) or callable(restrictions):
            given["restrictions"] = [restrictions]
        from tuner.space.python.reading import folder_of, read

        self._folder = folder_of(folder)
        self._data, self._model = read(given, self._folder, name)

    @property
    def model(self) -> model.Space:
        """What all of tuner works with."""
        return self._model

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def title(self) -> str:
        return self._model.title

    @property
    def parameters(self) -> dict[str, tuple[Value, ...]]:
        return dict(self._model.parameters)

    def to_yaml(self, path: str | os.PathLike[str] | None = None) -> str:
        """The space as the text of a space file, which is also written to `path` if that is given.

        If the source is a text, it is written beside the file, under the file's name. Paths in the text are relative to
        the folder of `path`, by default to that of the space. Raises SpaceError if the space holds functions or arrays.
        """
        from tuner.space.python.yaml_text import yaml_text

        return yaml_text(copy.deepcopy(self._data), self._model, self._folder, None if path is None else Path(path))

    def __repr__(self) -> str:
        combinations = math.prod(len(values) for values in self._model.parameters.values())
        names = shown(", ".join(self._model.parameters))
        return f"<Space {self.name}: {names}; {combinations:,} combinations>"


# Users know it as `tuner.Space`; within tuner, that is the name of what it builds.
Space = PythonSpace
Space.__name__ = Space.__qualname__ = "Space"
Space.__init__.__qualname__ = "Space.__init__"  # for Python's own messages about arguments
