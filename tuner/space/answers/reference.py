"""Answers of reference expressions, and the conversions that are applied to the answers of every kind of reference."""

import ast
import copy
import functools
import re
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tuner.errors import ExpressionError, SpaceError
from tuner.quoting import shown
from tuner.space import dtypes, expressions
from tuner.space.answers.cache import ReferenceCache
from tuner.space.dtypes import DType
from tuner.space.expressions import array_expressions, braces, parse
from tuner.space.expressions.evaluator import names_in
from tuner.space.model import Space
from tuner.space.scope import LazyNames, Scope
from tuner.space.sources import includes
from tuner.space.step import Step
from tuner.space.values.elements import Elements
from tuner.space.values.forms import ExpressionReference, KernelReference

Array = np.ndarray[Any, np.dtype[Any]]
Product = Callable[[str, Callable[[], Array]], Array]


def answers(
    reference: ExpressionReference, scope: Scope, arrays: Mapping[str, Elements], product: Product | None = None
) -> tuple[dict[str, Array], frozenset[str]]:
    """The answer of each output, and the names of the arrays that were read to compute them.

    Answers are complex128 if the output is complex, 64-bit integers if the output and its reference hold integers, and
    otherwise float64. `product` has the matrix products of these arrays by name, which do not depend on options, or
    computes them. An output that is not read (C at beta = 0) may have any content before the launch. Raises SpaceError
    if a reference cannot be computed, has another shape than its output, or has values that the output's type cannot
    represent. A single number fits an output of one element.
    """
    names = _ReferenceNames(scope.answer_names, arrays, product or functools.partial(ReferenceCache().get, 0))
    outputs: dict[str, Array] = {}
    for name, expression in reference.outputs.items():
        tree = products_by_name(expression.tree, frozenset(arrays))
        try:
            value = np.asarray(array_expressions.value_of(tree, names, expression.text))
        except ExpressionError as error:
            raise type(error)(f"reference {error}") from None
        outputs[name] = as_answer(value, name, arrays.get(name), f"reference `{shown(expression.text)}`")
    return outputs, frozenset(names.read)


def as_answer(value: Array, name: str, output: Elements | None, origin: str) -> Array:
    """`value` as the answer for `output`: float64, complex128, or 64-bit integers if both hold integers.

    `output` is None for a derived value. Raises SpaceError, which begins with `origin`, if `value` has another shape
    than the output, is not numeric, or has values that the output's type cannot represent.
    """
    if output is None:
        own = dtypes.DTYPES.get(value.dtype.name, dtypes.DTYPES["float64"])
        return value.astype(_answer_dtype(value, name, own, origin))
    if value.ndim == 0 and output.size == 1:
        value = value.reshape(output.shape)
    if value.shape != output.shape:
        raise SpaceError(f"{origin} has shape {value.shape}; {name} has {output.shape}")
    element = dtypes.of(output.dtype)
    answer = value.astype(_answer_dtype(value, name, element, origin))
    if element.is_exact:
        _check_range(answer, name, element, origin)
    return answer


def _check_range(answer: Array, name: str, element: DType, origin: str) -> None:
    """Raise SpaceError if a value of the answer is out of the range of the output's type, `element`."""
    with np.errstate(invalid="ignore"):
        outside = (
            ~((answer >= element.low) & (answer <= element.high)) if answer.dtype.kind != "b" else np.zeros(1, bool)
        )
    if outside.any():
        first = int(np.argmax(outside))
        index = ", ".join(str(int(i)) for i in np.unravel_index(first, answer.shape))
        raise SpaceError(
            f"{origin} gives {answer.reshape(-1)[first]} for {name}[{index}], a {element.name}, which holds "
            f"{element.low:.0f} to {element.high:.0f}; clip it, or declare a wider dtype"
        )


def _answer_dtype(value: Array, name: str, output: DType, origin: str) -> np.dtype[Any]:
    """The dtype of the answer for an output of type `output`. Raises SpaceError if `value` cannot be that answer."""
    given = dtypes.DTYPES.get(value.dtype.name)
    if given is None:
        raise SpaceError(f"{origin} has dtype {shown(value.dtype)}, which holds no numbers")
    if given.kind == "complex" and output.kind != "complex":
        raise SpaceError(f"{origin} is complex, but {name} is {output.name}; take its abs, real or imag")
    if output.is_exact and given.is_exact:
        return given.wide if given.name == "uint64" else np.dtype("int64")
    return np.dtype("complex128" if output.kind == "complex" else "float64")


def as_space(space: Space, form: KernelReference) -> Space:
    """The reference kernel of `space`, as a space without parameters: it has one configuration.

    Its arguments are those that the kernel takes, and those that it accesses indirectly: the arrays that its tensor
    maps describe, and `__constant__` variables of its source. Raises SpaceError if the source cannot be read.
    """
    by_name = {argument.name: argument for argument in space.operation.arguments}
    known = space.operation.types.keys()
    options = {
        language: tuple(option for option in options if known >= set(braces.names(option)))
        for language, options in space.compile_options.items()
    }
    step = Step(
        kernel=form.kernel,
        source=form.source or space.steps[0].source,
        arguments=form.arguments,
        grid=form.grid,
        block=form.block,
        shared_memory=parse(0),
    )
    taken = [by_name[name] for name in (*form.arguments, *_indirect(space, step))]
    arguments = (replace(a, kind=a.kind and a.kind.unconditional(a.name in form.arguments)) for a in taken)
    return replace(
        space,
        steps=(step,),
        operation=replace(space.operation, arguments=tuple(arguments)),
        parameters={},
        restrictions=(),
        derived={},
        default={},
        compile_options=options,
        compiler=space.compiler if space.python_language is None else "",  # it is in the language that this one is of
    )


@functools.lru_cache(maxsize=32)  # a tune computes answers for several sets of inputs
def products_by_name(tree: ast.expr, arrays: Container[str]) -> ast.expr:
    """A copy of `tree` in which each product of whole arrays is a name: its text, such as `A @ B`."""
    replaced: ast.expr = _ProductsByName(arrays).visit(copy.deepcopy(tree))
    return replaced


def _indirect(space: Space, step: Step) -> list[str]:
    """The arguments that a step's kernel accesses without taking them as parameters."""
    text, found = includes.without_comments(includes.inlined(step.source, space.include)), list[str]()
    for argument in space.operation.arguments:
        if argument.name in step.arguments:
            found += argument.reaches
        elif argument.kind is not None and argument.kind.is_symbol and re.search(rf"\b{argument.name}\b", text):
            found.append(argument.name)
    return [name for name in dict.fromkeys(found) if name not in step.arguments]


class _ProductsByName(ast.NodeTransformer):
    """Replaces each product of whole arrays by a name."""

    def __init__(self, arrays: Container[str]) -> None:
        self._arrays = arrays

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        if isinstance(node.op, ast.MatMult) and all(name in self._arrays for name in names_in(node)):
            return ast.Name(ast.unparse(node))
        self.generic_visit(node)
        return node


def widening(arrays: Mapping[str, Elements]) -> dict[str, Callable[[Mapping[str, Any]], Array]]:
    """What widens each array, for `LazyNames`."""

    def widen(elements: Elements, _: Mapping[str, Any]) -> Array:
        return elements.array(elements.element.wide)

    return {name: functools.partial(widen, elements) for name, elements in arrays.items()}


class _ReferenceNames(LazyNames):
    """The values of a reference's names. The first read of an array adds its name to `read`."""

    def __init__(self, scalars: Mapping[str, Any], arrays: Mapping[str, Elements], product: Product) -> None:
        super().__init__(scalars, widening(arrays))
        self._product, self.read = product, set[str]()

    def __missing__(self, name: str) -> Any:
        if "@" in name:
            product = expressions.parse_array(name)
            self.read |= product.names
            return self._product(name, lambda: array_expressions.walk(product.tree, self))
        self.read.add(name)
        return super().__missing__(name)


def widened(array: Array) -> Array:
    """The array as float64 or complex128, or as int64 if it holds integers, so that sums neither round nor overflow."""
    return array.astype(dtypes.of(array.dtype).wide)
