"""The blocks per cluster of a configuration: how many run together on one group of multiprocessors."""

from __future__ import annotations

import ast
import copy
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tuner.errors import ExpressionError, SpaceError
from tuner.prediction.amounts import Indices
from tuner.prediction.grid_trees import Substitution
from tuner.space import expressions
from tuner.space.sources import source_text, tokens
from tuner.space.sources.includes import without_comments

if TYPE_CHECKING:
    from tuner.space.config import Config
    from tuner.space.model import Space

MOST_EXPANSIONS = 8  # of macros in macros
DECLARED = re.compile(r"__cluster_dims__\s*\(((?:[^()]|\([^()]*\))*)\)")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S.*)$", re.MULTILINE)


def blocks_per_cluster(entries: Sequence[tuple[Space | None, Config]]) -> Indices:
    """The blocks per cluster of each entry, [entries], by the space file (`cluster:`) or the code (`__cluster_dims__`).

    1 for the library, without clusters, and if the extents depend on sizes or on a macro with several definitions. Of
    several steps, and of all that a source declares under whatever `#if`, the largest counts.
    """
    spaces = {id(space): space for space, _ in entries if space is not None}
    declared = {each: _declared(space) for each, space in spaces.items()}
    return np.array([1 if space is None else _blocks(declared[id(space)], space, config) for space, config in entries])


def _blocks(declared: Sequence[Sequence[ast.expr]], space: Space, config: Config) -> int:
    found = [1]
    for extents in declared:
        values = [Substitution(space, config).visit(copy.deepcopy(extent)) for extent in extents]
        if all(isinstance(value, ast.Constant) and type(value.value) is int for value in values):
            found.append(math.prod(value.value for value in values))
    return max(found)


def _declared(space: Space) -> list[tuple[ast.expr, ...]]:
    """The extents of clusters as expressions of parameters and derived values."""
    found = [tuple(extent.tree for extent in step.cluster) for step in space.steps if step.cluster]
    for path in {step.source for step in space.steps} if space.python_language is None else ():
        try:
            text = without_comments(source_text.device(space, path))
        except SpaceError:  # a missing header is reported when the source is checked
            continue
        own = {*space.parameters, *space.derived}  # the source may have defaults of these
        every = {(name, value.strip()) for name, value in MACRO.findall(text) if name not in own}
        counts = Counter(name for name, _ in every)
        macros = {name: value for name, value in every if counts[name] == 1}  # of others, an #if decides
        for declared in DECLARED.findall(text):
            try:
                extents = tokens.split(tokens.words(_expanded(declared, macros)))
                found.append(tuple(expressions.parse(" ".join(extent)).tree for extent in extents))
            except ExpressionError:
                continue  # a template argument, or a macro with arguments
    return found


def _expanded(text: str, macros: dict[str, str]) -> str:
    """The text with macros replaced by what they stand for."""
    for _ in range(MOST_EXPANSIONS):
        expanded = re.sub(r"\w+", lambda name: f"({macros[name[0]]})" if name[0] in macros else name[0], text)
        if expanded == text:
            break
        text = expanded
    return text
