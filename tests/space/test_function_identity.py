"""The identity of a function: what changes it, what does not, and what has none."""

from __future__ import annotations

import functools
import importlib
import math
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tuner.space.values.function_identity import NoIdentity, of, of_code

PREFIX = "import functools, math\nimport numpy as np\nfactor = 2\ndef helper(x): return factor * x\n"


def made(text: str, prefix: str = PREFIX) -> Any:
    """The function `f` of a module with this text."""
    module = types.ModuleType("of_a_test")
    exec(compile(f"{prefix}{textwrap.dedent(text)}", "of_a_test.py", "exec"), module.__dict__)
    return module.__dict__["f"]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return helper(x) + np.sqrt(x) + math.pi",
        "def f(x, y=3, *, z={'a': (1, 2)}): return x",
        "f = functools.partial(lambda k, x: k * x, 3)",
        "f = (lambda table: lambda x: table[x])(np.arange(3))",
        "f = functools.lru_cache(lambda x: x)",
        "def f(n): return 1 if n < 2 else n * f(n - 1)",
        "f = (lambda step: lambda x: step(x))(lambda x: [y for y in x if y in {1, 2}])",
    ],
)
def test_the_same_text_has_the_same_identity_on_whatever_line(text: str) -> None:
    assert of(made(text)) == of(made(f"\n\n{text}")) == of(made(text, f"# a comment\n{PREFIX}other = object()\n"))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("def f(x): return x + 1", "def f(x): return x + 2"),
        ("def f(x): return x + 1", "def f(x): return x + 1.0"),
        ("def f(x): return x + 1", "def f(x): return x - 1"),
        ("def f(x, y=1): return x", "def f(x, y=2): return x"),
        ("def f(x, *, y=1): return x", "def f(x, *, y=2): return x"),
        ("def f(x): return helper(x)", "def helper(x): return 3 * x\ndef f(x): return helper(x)"),
        ("def f(x): return helper(x)", "factor = 3\ndef f(x): return helper(x)"),
        ("f = (lambda t: lambda x: t)(np.zeros(2))", "f = (lambda t: lambda x: t)(np.zeros(2, np.float32))"),
        ("f = (lambda t: lambda x: t)(np.zeros(2))", "f = (lambda t: lambda x: t)(np.array([0, -0.0]))"),
        ("f = (lambda t: lambda x: t)({'a': [1]})", "f = (lambda t: lambda x: t)({'a': [2]})"),
        ("f = functools.partial(helper, 3)", "f = functools.partial(helper, 4)"),
        ("def f(x): return math.sin(x)", "def f(x): return math.cos(x)"),
        ("def f(x): return (lambda: x + 1)()", "def f(x): return (lambda: x + 2)()"),
    ],
)
def test_what_a_function_does_is_its_identity(text: str, other: str) -> None:
    assert of(made(text)) != of(made(other))


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): return x + {}",
        "def f(x, *, y={}): return x",
        "def f(x, y=np.float32({})): return x",
        "f = functools.partial(helper, {})",
        "f = functools.partial(helper, factor=np.float32({}))",
    ],
)
def test_code_has_an_identity_with_its_defaults(text: str) -> None:
    first, again, other = (of_code(made(text.format(number))) for number in (1, 1, 2))
    assert first == again != other


def test_code_has_an_identity_without_the_values_that_it_captures() -> None:
    captures = "f = (lambda t: lambda x: t)({})"
    assert of_code(made(captures.format("np.zeros(2)"))) == of_code(made(captures.format("np.ones(2)")))


def doubling(module: Any) -> Any:
    return lambda x: module.double(x)


def test_a_module_of_the_user_counts_with_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    identities = []
    for factor in (2, 2, 3):
        (tmp_path / "beside_it.py").write_text(f"def double(x):\n    return {factor} * x\n")
        beside_it = importlib.import_module("beside_it")
        identities.append(of(doubling(beside_it)))
    assert identities[0] == identities[1] != identities[2]


@dataclass(frozen=True)
class Weights:
    left: float
    right: tuple[int, ...]


class Opaque:
    def __call__(self, x: float) -> float:
        return x


def test_data_classes_and_their_methods_have_one() -> None:
    def reading(weights: Weights) -> Any:
        return lambda x: weights.left * x

    assert of(reading(Weights(1.0, (2,)))) == of(reading(Weights(1.0, (2,))))
    assert of(reading(Weights(1.0, (2,)))) != of(reading(Weights(1.0, (3,))))


@pytest.mark.parametrize(
    "value", [np.random.default_rng(0), Opaque(), np.array([object()]), iter([1]), {"a": {3: Opaque()}}]
)
def test_what_another_run_cannot_recognize_has_none_and_is_named(value: Any) -> None:
    with pytest.raises(NoIdentity, match=r"^`\w+`, a(n array of objects| \w+)$"):
        of(lambda x: (value, math.pi, functools))
