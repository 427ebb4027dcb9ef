"""What conditions leave of a source, which says that configurations are the same code."""

from __future__ import annotations

import pytest

from tuner.space.sources.preprocessor import preprocessed

SAME = {
    "a condition": "#if v > 2\na();\n#elif v == 2\nb();\n#else\nf();\n#endif",
    "a guard": "#ifndef v\n#define v 7\n#endif\nf();",
    "a condition in one that is left out": "#if v > 5\n#if FOO\nv;\n#else\nv;\n#endif\n#endif\nf();",
    "a condition on the compiler": "#ifdef __CUDA_ARCH__\nf();\n#else\n#define F g\n#endif\nF();",
    "a macro of a macro": "#define W (v + 2)\n#if W < 2\nnever\n#endif\nf();",
    "a string": 'f("v");',
    "negations": "#if !defined(v) || !(4) || (!v && v)\nnever\n#endif\nf();",
    "a header around which it is no macro": "#undef v\n#include <math.h>\n#define v {}\nf();",
}
OTHERS = {
    "a use": "f(v);",
    "a condition": "#if v\nf();\n#endif",
    "a macro of a macro": "#define W (v + 2)\nf(W);",
    "one that takes arguments": "#define F(x) (x * v)\nf(F(1));",
    "one that takes arguments, and a later macro": "#define F(x) (x * W)\n#define W v\nf(F(1));",
    "one whose value changes after": "#define W v\n#define F(x) (x * W)\nf(F(1));\n#undef W\n#define W 0",
    "an unknown condition around another value": "#ifdef FOO\n#define v 7\n#endif\nf(v);",
    "an unknown condition around none": "#ifdef FOO\n#undef v\n#endif\nf(v);",
    "within an unknown condition": "#if FOO\nf(v);\n#endif",
    "after an unknown condition": "#if FOO\ng();\n#elif v\nf();\n#endif",
    "a condition that is half known": "#if FOO && v\nf();\n#endif",
    "a chain": "#if 2 > 1 > v\nf();\n#endif",
    "a pragma": "#pragma unroll v\nf();",
}


def texts(rest: str) -> list[str | None]:
    return [preprocessed(f"#define v {value}\n{rest.replace('{}', str(value))}") for value in (0, 1)]


@pytest.mark.parametrize("rest", SAME.values(), ids=SAME)
def test_what_makes_no_difference_is_the_same_code(rest: str) -> None:
    one, other = texts(rest)
    assert one == other
    assert one is not None
    assert "f(" in one


@pytest.mark.parametrize("rest", OTHERS.values(), ids=OTHERS)
def test_what_may_make_a_difference_is_not(rest: str) -> None:
    one, other = texts(rest)
    assert one != other


@pytest.mark.parametrize("rest", ["#define F(x) x##v\nF(a)", "#include v", "v\n" + "#define v v v\n", "#if 1\n" * 2000])
def test_of_what_cannot_be_told_nothing_is(rest: str) -> None:
    one, other = texts(rest)
    assert one is None or one != other


@pytest.mark.slow
def test_macros_that_grow_without_bound_end() -> None:
    nested = "".join(f"#define m{i} m{i + 1} m{i + 1}\n" for i in range(60))
    assert preprocessed(f"{nested}m0\n") is None
