"""The file of `cache=`, in Kernel Tuner's form: configurations that a script has measured before."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_tuner import util

from tuner import paths
from tuner.door.call import Call
from tuner.door.results import Row, WrongResultConfig
from tuner.errors import RequestError

ERRORS = {
    each.__name__: each
    for each in (
        util.InvalidConfig,
        util.CompilationFailedConfig,
        util.RuntimeFailedConfig,
        WrongResultConfig,
    )
}


class CacheFile:
    """A cache file. `rows` are the rows that it holds, by the values of their parameters."""

    def __init__(self, path: str | os.PathLike[str], call: Call, device_name: str) -> None:
        """Read the file, if there is one. Raises RequestError if it is of another kernel, problem or device."""
        name = os.fspath(path)
        self.path = Path(name if name.endswith(".json") else f"{name}.json")
        self._call, self._device_name = call, device_name
        self.rows = self._read() if self.path.is_file() else {}

    def _read(self) -> dict[tuple[Any, ...], Row]:
        try:
            data = _parsed(self.path.read_text(encoding="utf-8").strip())
            names = list(self._call.parameters)
            keys, rows = data.get("tune_params_keys", names), [_row(entry) for entry in data["cache"].values()]
            found = {} if keys != names else {tuple(row[name] for name in names): row for row in rows}
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise RequestError(
                f"cache {self.path}: not a cache file of Kernel Tuner: {error}; name another file"
            ) from None
        own = self._header(None)
        for key in ("device_name", "kernel_name", "tune_params_keys", "problem_size"):
            if key in data and data[key] != own[key]:
                raise RequestError(
                    f"cache {self.path}: {key} is {data[key]!r}, and now {own[key]!r}; name another file"
                )
        return found

    def write(self, rows: Sequence[Row], objective: Sequence[str]) -> None:
        """Write these rows, with those that the file had. Raises RequestError if the file cannot be written."""
        names = list(self._call.parameters)
        every = {**self.rows, **{tuple(row[name] for name in names): row for row in rows}}
        entries = {",".join(map(str, key)): _entry(row) for key, row in every.items()}
        text = json.dumps({**self._header(objective), "cache": entries}, cls=util.NpEncoder, indent="")
        try:
            paths.replace(self.path, text.encode("utf-8"))
        except OSError as error:
            raise RequestError(f"cache {self.path}: cannot be written: {error.strerror}; name another file") from None

    def _header(self, objective: Sequence[str] | None) -> dict[str, Any]:
        problem = "callable" if callable(self._call.problem_size) else self._call.problem_size
        header = {
            "device_name": self._device_name,
            "kernel_name": self._call.kernel_name,
            "problem_size": problem,
            "tune_params_keys": list(self._call.parameters),
            "tune_params": {name: list(values) for name, values in self._call.parameters.items()},
            "objective": objective,
        }
        plain: dict[str, Any] = json.loads(json.dumps(header, cls=util.NpEncoder))
        return plain


def _parsed(text: str) -> Any:
    """The content of a file. Kernel Tuner leaves the last two brackets open while it runs. Raises ValueError."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(f"{text.removesuffix(',')}}}\n}}")


def _row(entry: Mapping[str, Any]) -> Row:
    error = entry.get("__error__")
    return {**entry, "__error__": ERRORS[error]()} if error in ERRORS else {**entry}


def _entry(row: Row) -> Row:
    return {**row, "__error__": str(row["__error__"])} if "__error__" in row else row
