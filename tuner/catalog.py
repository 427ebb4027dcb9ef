"""Kernels by name: what ships, and any YAML file that a user names."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import form, paths
from tuner.errors import RequestError

if TYPE_CHECKING:
    from tuner.space import Space


def names() -> list[str]:
    """The kernels that ship, `family/stage`, in order."""
    root = paths.shipped("spaces")
    found = (path.relative_to(root).with_suffix("") for path in root.rglob("*.yaml"))
    return sorted(path.as_posix() for path in found if path.name != "operation" and not path.name.startswith("_"))


def find(kernel: str) -> tuple[Path, str]:
    """File and name of `kernel`: `sgemm/06_tiled`, a unique part of it, or the path of a YAML file.

    Raises RequestError, with the nearest names, where there is no such kernel or more than one.
    """
    path = Path(kernel)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise RequestError(f"kernel {kernel!r}: there is no such file; name a file, or one of `tune list`")
        return path, f"{path.resolve().parent.name}/{path.stem}"
    known = names()
    matches = [name for name in known if name == kernel] or [name for name in known if kernel and kernel in name]
    if len(matches) == 1:
        return paths.shipped("spaces") / f"{matches[0]}.yaml", matches[0]
    if matches:
        raise RequestError(f"kernel {kernel!r} could be {', '.join(matches)}; write more of the name")
    stages = {name.rpartition("/")[2]: name for name in known} | {name: name for name in known}
    near = dict.fromkeys(stages[match] for match in difflib.get_close_matches(kernel, stages, n=3, cutoff=0.4))
    hint = f"did you mean {' or '.join(near)}?" if near else "`tune list` shows all"
    raise RequestError(f"kernel {kernel!r}: there is no such kernel; {hint}")


def load(kernel: str) -> Space:
    """The Space of `kernel`, from its launch form where that is still true, else from its YAML.

    Reading YAML imports pydantic and yaml; what it gives is left in the cache so that the next launch does not.
    """
    path, name = find(kernel)
    kept = paths.cache() / "forms" / f"{paths.digest(str(path.resolve()), name)}.json"
    known = _still_true(kept)
    if known is not None:
        return known
    from tuner import spacefile

    made = spacefile.read(path, name)
    files = [*made.files, made.source]
    stamps = {str(file.resolve()): paths.digest(file.read_bytes()) for file in files}
    paths.replace(kept, json.dumps({"files": stamps, "space": form.to_json(made)}).encode())
    return made


def _still_true(kept: Path) -> Space | None:
    """The Space of a launch form whose files have not changed since; None otherwise."""
    try:
        data: Any = json.loads(kept.read_bytes())
        if data["space"]["version"] != form.VERSION:
            return None
        for file, digest in data["files"].items():
            if paths.digest(Path(file).read_bytes()) != digest:
                return None
        return form.from_json(data["space"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
