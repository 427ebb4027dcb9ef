"""The file of `cache=`, in Kernel Tuner's form: configurations that a script has measured before."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_tuner import util

from tuner import paths
from tuner.door.calls.call import Call
from tuner.door.results import UNTIMED, Row, WrongResultConfig
from tuner.errors import RequestError

END = "}\n}"  # of a file that is not open for more rows
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
            is_ours = key == "device_name" and data.get(key) == self._device_name  # of files that tuner has written
            if key in data and data[key] != own[key] and not is_ours:
                raise RequestError(
                    f"cache {self.path}: {key} is {data[key]!r}, and now {own[key]!r}; name another file"
                )
        return found

    def begin(self, objective: Sequence[str]) -> None:
        """Write the rows that the file has, and leave it open for more. Raises RequestError if it cannot be written."""
        self._replace(f"{self._head(objective)}{''.join(map(_line, self.rows.items()))}")

    def add(self, row: Row) -> None:
        """Write a row at once, as Kernel Tuner does: what is measured outlives this process. Raises RequestError."""
        with self._writing(), self.path.open("a", encoding="utf-8") as file:
            file.write(_line((self._key(row), row)))

    def end(self, rows: Sequence[Row], objective: Sequence[str]) -> None:
        """Write these rows, with those that the file had, as whole JSON. Raises RequestError as `begin` does."""
        every = {**self.rows, **{self._key(row): row for row in rows}}
        lines = "".join(map(_line, every.items())).removesuffix(",")
        self._replace(f"{self._head(objective)}{lines}{END}")

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._call.parameters)

    def _head(self, objective: Sequence[str]) -> str:
        """What is before the rows."""
        return json.dumps({**self._header(objective), "cache": {}}, cls=util.NpEncoder, indent="").removesuffix(END)

    def _replace(self, text: str) -> None:
        with self._writing():
            paths.replace(self.path, text.encode("utf-8"))

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        return paths.writing(f"cache {self.path}", "name another file")

    def _header(self, objective: Sequence[str] | None) -> dict[str, Any]:
        problem = "callable" if callable(self._call.problem_size) else self._call.problem_size
        header = {
            "device_name": platform.processor() if self._call.language == "c" else self._device_name,  # Kernel Tuner's
            "kernel_name": self._call.kernel_name,
            "problem_size": problem,
            "tune_params_keys": list(self._call.parameters),
            "tune_params": {name: list(values) for name, values in self._call.parameters.items()},
            "objective": objective,
        }
        plain: dict[str, Any] = json.loads(json.dumps(header, cls=util.NpEncoder))
        return plain


def _parsed(text: str) -> Any:
    """The content of a file. Raises ValueError.

    Kernel Tuner leaves the last two brackets open while it runs, and a process that was killed may have left a part of
    a row, which is dropped.
    """
    whole = text.rpartition("\n")[0]
    for attempt in (text, f"{text.removesuffix(',')}{END}"):
        with contextlib.suppress(ValueError):
            return json.loads(attempt)
    return json.loads(f"{whole.rstrip().removesuffix(',')}{END}")


def _row(entry: Mapping[str, Any]) -> Row:
    """A row as a call returns it: Kernel Tuner adds some times only to the rows that it returns."""
    error, row = entry.get("__error__"), {**UNTIMED, **entry}
    return {**row, "__error__": ERRORS[error]()} if error in ERRORS else row


def _line(entry: tuple[tuple[Any, ...], Row]) -> str:
    """A row as Kernel Tuner writes it: on a line of its own, which ends with a comma."""
    key, row = entry
    plain = {**row, "__error__": str(row["__error__"])} if "__error__" in row else row
    return "\n" + json.dumps({",".join(map(str, key)): plain}, cls=util.NpEncoder)[1:-1] + ","
