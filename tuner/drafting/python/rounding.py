"""Comments about the tolerance that a kernel in Triton may need, from what it computes with."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tuner.drafting.python.syntax import last_word
from tuner.space.dtypes import DTYPES

# Functions whose float32 results come from the approximations of the GPU: errors of up to 4e-6 were seen.
APPROXIMATE = ("exp", "exp2", "log", "log2", "sin", "cos", "sigmoid", "softmax", "erf", "rsqrt")
_ACCEPT = "with accept: [rounded_inputs]"
_ROUNDED = ("int8", "int16", "int32", "uint8", "uint16", "uint32")


def remarks(function: ast.FunctionDef, outputs: Mapping[str, str]) -> list[str]:
    """Lines of comments; `outputs` has the type of each output, as the draft declares it."""
    calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
    names = {last_word(call.func) for call in calls}
    found = []
    if products := [call for call in calls if last_word(call.func) == "dot" and not _is_exact(call)]:
        terms = _terms(function, products[0])
        found.append(f"1e-3 * {terms}    # if tl.dot rounds to TF32, for sums of {terms} terms; {_ACCEPT}")
    if used := [name for name in APPROXIMATE if name in names]:
        found.append(f"{{rtol: 64 * epsilon}}    # if outputs are float32: tl.{used[0]} is approximate")
    whole = [name for name, dtype in outputs.items() if dtype in DTYPES and DTYPES[dtype].is_exact]
    if whole and _rounds(calls):
        found.append(f"{{{whole[0]}: 1}}    # if real numbers are rounded to whole ones: a half may go either way")
    return [f"  # tolerance: {each}" for each in found]


def _terms(function: ast.FunctionDef, product: ast.Call) -> str:
    """The argument up to which the innermost loop around a product counts; a word for it if there is none."""
    loops = [each for each in ast.walk(function) if isinstance(each, ast.For) and product in ast.walk(each)]
    given = [each.iter.args for each in loops if isinstance(each.iter, ast.Call)]
    ends = [args[min(1, len(args) - 1)] for args in given if args]
    names, taken = [n.id for end in ends[-1:] for n in ast.walk(end) if isinstance(n, ast.Name)], function.args.args
    return next((name for name in names if name in [each.arg for each in taken]), "TERMS")


def _is_exact(dot: ast.Call) -> bool:
    """Whether a product of float32 is computed in float32."""
    return any(
        keyword.arg == "input_precision" and isinstance(keyword.value, ast.Constant) and keyword.value.value == "ieee"
        for keyword in dot.keywords
    )


def _rounds(calls: list[ast.Call]) -> bool:
    """Whether something is converted to a type of whole numbers."""
    return any(
        last_word(call.func) == "to" and any(last_word(given) in _ROUNDED for given in call.args) for call in calls
    )
