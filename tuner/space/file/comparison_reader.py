"""Reads `derive:` and `tolerance:`, the keys of an operation that say how outputs are compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tuner.classes import dataclass
from tuner.quoting import shown
from tuner.space import expressions
from tuner.space.argument import Argument
from tuner.space.expressions import Expression, arithmetic, evaluator
from tuner.space.file.name_check import check_names, check_passed
from tuner.space.file.schema import OperationModel
from tuner.space.file.yamlfile import Document, Where
from tuner.space.values import python_function
from tuner.space.values.python_derivation import PythonDerivation
from tuner.space.values.tolerance import EPSILON, TERMS, Tolerance, value_of


@dataclass(frozen=True)
class Compared:
    """The names that a reference may cover.

    needed: derived values, and outputs that no derived value reads. They must have a reference.
    others: the other outputs. They may have one.
    """

    needed: list[str]
    others: list[str]

    def fits(self, names: Collection[str]) -> bool:
        """Whether references with these names cover all that are needed, and no unknown name."""
        return set(self.needed) <= set(names) <= {*self.needed, *self.others}


class ComparisonReader:
    """Reads both keys of the operation at key `prefix` of a document.

    scope_names: sizes, options and device properties, which expressions may use.
    """

    def __init__(
        self,
        document: Document,
        prefix: Where,
        model: OperationModel,
        scope_names: set[str],
        arguments: Sequence[Argument],
    ) -> None:
        self._document, self._prefix, self._model = document, prefix, model
        self._scope_names = scope_names
        self._arguments = arguments
        self._arrays = [argument.name for argument in arguments if argument.is_array]
        self._outputs = [argument.name for argument in arguments if argument.role in ("out", "inout")]

    def derive(self) -> dict[str, Expression]:
        """The derived values by name.

        Raises SpaceError for a name that is taken, or an expression that reads no output.
        """
        derive: dict[str, Expression] = {}
        for name, formula in self._model.derive.items():
            where = (*self._prefix, "derive", name)
            with self._document.at(where):
                derive[name] = expression = self._derivation(formula)
            taken = {*self._scope_names, *(argument.name for argument in self._arguments), *arithmetic.FUNCTIONS}
            if name in taken:
                raise self._document.error(where, "this name is taken; choose another")
            if isinstance(expression, PythonDerivation):
                continue
            check_passed(self._document, where, expression, self._arguments)
            check_names(self._document, where, expression, {*self._scope_names, *self._arrays})
            if not expression.names & set(self._outputs):
                raise self._document.error(
                    where,
                    f"`{shown(expression.text)}` reads no output; name one of {', '.join(self._outputs) or 'none'}",
                )
        return derive

    def _derivation(self, formula: Any) -> Expression:
        """An expression, or `{python: check.py:is_right}`. Raises ExpressionError or ValueError."""
        if not isinstance(formula, dict):
            return expressions.parse_array(formula)
        if formula.keys() != {"python"}:
            raise ValueError("write an expression, or {python: check.py:is_right}")
        function = python_function.parse(formula["python"], self._document.path.resolve().parent)
        asked = python_function.parameters(function)
        arrays = self._arrays if asked is None else [name for name in self._arrays if name in asked]
        return PythonDerivation(str(formula["python"]), function, frozenset(arrays))

    def compared(self, derive: Mapping[str, Expression]) -> Compared:
        """The names that a reference may cover."""
        read = {name for expression in derive.values() for name in expression.names}
        outputs = [
            argument.name for argument in self._arguments if argument.name in self._outputs and argument.compared
        ]
        needed = [*derive, *(name for name in outputs if name not in read)]
        return Compared(needed, [name for name in outputs if name in read])

    def tolerance(self, compared: Sequence[str]) -> dict[str, Tolerance]:
        """The tolerance of each compared output or derived value.

        Raises SpaceError for an unknown term or name, or a constant that is not a valid tolerance.
        """
        given, where = self._model.tolerance, (*self._prefix, "tolerance")
        if given is None:
            return {}
        if self._model.reference == "none":
            raise self._document.error(
                where, "`reference: none` compares nothing, so a tolerance has no effect; remove one of them"
            )
        if not isinstance(given, dict) or (given.keys() <= set(TERMS) and not given.keys() <= set(compared)):
            return dict.fromkeys(compared, self._terms(given, where))
        for name in given:
            if name not in compared and name not in TERMS:
                raise self._document.error((*where, name), evaluator.unknown_name(name, [*compared, *TERMS]))
        for name in given:
            if name not in compared:
                advice = f"write the terms of each output, as in `{compared[0]}: {{{name}: 1e-5}}`"
                raise self._document.error((*where, name), f"terms and outputs cannot be mixed; {advice}")
        return {name: self._terms(value, (*where, name)) for name, value in given.items()}

    def _terms(self, given: Any, where: Where) -> Tolerance:
        """The tolerance in a mapping by term, or in a single expression, which is `atol`."""
        terms: dict[str, Any] = given if isinstance(given, dict) else {"atol": given}
        for term, expression in terms.items():
            self._check_term(term, expression, (*where, term) if terms is given else where)
        return Tolerance(**terms)

    def _check_term(self, term: str, expression: Any, where: Where) -> None:
        if term not in TERMS:
            raise self._document.error(where, evaluator.unknown_name(term, TERMS))
        if isinstance(expression, dict):
            raise self._document.error(where, "a mapping; an expression is needed")
        check_names(self._document, where, expression, {*self._scope_names, EPSILON})
        if not expression.names:
            with self._document.at(where):
                value_of(term, expression, {})
