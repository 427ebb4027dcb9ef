"""The one place where a configuration becomes the text that a compiler sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner import paths
from tuner.errors import ExpressionError, GeometryError, SpaceError
from tuner.space.model import Config, Geometry, Scope, Space, Value

_COMMENT = re.compile(r"""//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<[^>\n]+>)[^\n]*$', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """What is compiled and how it is launched; equal Sources give equal builds."""

    text: str
    kernel: str
    options: tuple[str, ...]
    geometry: Geometry

    @property
    def digest(self) -> str:
        """Names what is compiled, whatever compiles it, for whichever device."""
        return paths.digest(*self.options, self.kernel, self.text)


def render(space: Space, config: Config, scope: Scope) -> Source:
    """The Source of one configuration: its values and the derived ones as macros, then the kernel file with its own
    includes put in. Raises SpaceError where an include is missing, GeometryError where a derived value, the grid or the
    block has no value in this configuration."""
    try:
        macros, geometry = defines(space, config, scope), space.geometry(config, scope)
    except ExpressionError as error:
        raise GeometryError(str(error)) from None
    return Source(
        text=macros + f'#line 1 "{space.source.name}"\n' + inlined(space.source, (*space.parameters, *space.derived)),
        kernel=space.kernel,
        options=tuple(space.compile_options.get(scope.language, ())),
        geometry=geometry,
    )


def defines(space: Space, config: Config, scope: Scope) -> str:
    """The macros of one configuration, a `#define` a line: its values and the derived ones."""
    names = space.names(config, scope)
    knobs = {name: names[name] for name in (*space.parameters, *space.derived)}
    return "".join(f"#define {name} {_literal(value)}\n" for name, value in knobs.items())


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return str(value)


def inlined(path: Path, macros: Sequence[str] = ()) -> str:
    """The text of `path` with every `#include "..."` put in its place: a file beside it, in the folder above, or, as
    portable.h is, in the kernels that ship.

    The text then stands alone: it can be hashed, cached, exported and compiled anywhere. Includes in <> are the
    compiler's, and see none of `macros`. Each file is put in once. Raises SpaceError for a file that is missing.
    """
    return _inlined(path, set(), macros)


def _inlined(path: Path, seen: set[Path], macros: Sequence[str]) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SpaceError(f"{path}: the kernel file cannot be read: {error}") from None

    def put_in(match: re.Match[str]) -> str:
        line = text.count("\n", 0, match.start()) + 1
        if match[1] is None:
            return _shielded(match[0], macros) + f'\n#line {line + 1} "{path.name}"' if macros else match[0]
        folder = path.resolve().parent
        folders = (folder, folder.parent, paths.shipped("kernels"))
        found = next((p for f in folders if (p := f / match[1]).is_file()), None)
        if found is None:
            raise SpaceError(f'{path}:{line}: #include "{match[1]}" is in none of {", ".join(map(str, folders))}')
        if found.resolve() in seen:
            return ""
        seen.add(found.resolve())
        return f'#line 1 "{found.name}"\n{_inlined(found, seen, macros)}\n#line {line + 1} "{path.name}"'

    return _INCLUDE.sub(put_in, text)


def _shielded(include: str, macros: Sequence[str]) -> str:
    """An include of somebody else's header, which may use our macros' names for its own."""
    away = (f'#pragma push_macro("{name}")\n#undef {name}\n' for name in macros)
    return "".join(away) + include + "".join(f'\n#pragma pop_macro("{name}")' for name in macros)


def without_comments(text: str) -> str:
    """C source with comments, blank lines, trailing space and the numbers of lines gone; strings are kept as they
    are."""
    stripped = _COMMENT.sub(lambda match: match[1] or " ", text)
    return "\n".join(line.rstrip() for line in stripped.splitlines() if line.strip() and not line.startswith("#line "))


def signature(space: Space) -> str:
    """Names what a configuration of this space means: the code without comments, its arguments and its geometry.

    It does not change when values or restrictions are added, because those leave what was measured true.
    """
    op = space.operation
    meaning: Mapping[str, object] = {
        "kernel": space.kernel,
        "text": without_comments(inlined(space.source)),
        "options": sorted(space.compile_options.items()),
        "arguments": [
            (a.name, a.dtype, a.shape and [e.text for e in a.shape], a.role, *(e.text for e in a.value))
            for a in op.arguments
        ],
        "derived": [(name, e.text) for name, e in space.derived.items()],
        "geometry": [e.text for e in (*space.grid, *space.block, space.shared_memory)],
        "reference": sorted((name, e.text) for name, e in op.reference.items()),
        "tolerance": op.tolerance and op.tolerance.text,
    }
    return paths.digest(*(f"{key}={value}" for key, value in meaning.items()))
