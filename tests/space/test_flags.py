"""Parameters that a source reads by #ifdef: false leaves them undefined, and values that define them alike."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.space.sources.rendering import Version

Y = array("y", "float32", ["n"], "out")
HEAD = "void f(float *y, int n) {\n    for (int i = 0; i < n; i++) y[i] = "
IFDEF = f"""{HEAD}0;
#ifdef USE_VEC
    y[0] = 1;
#endif
}}
"""
NOT_DEFINED = f"""{HEAD}0;
#if !defined(USE_VEC)
#else
    y[0] = 1;
#endif
}}
"""
AND_MORE = f"""{HEAD}0;
#if defined(USE_VEC) && USE_VEC > 2
    y[0] = 1;
#endif
}}
"""
WITHIN = f"""{HEAD}0;
#ifdef USE_VEC
    int width = USE_VEC;
    y[0] = width > 0;
#endif
}}
"""
TWICE = f"""{HEAD}0;
#ifdef USE_VEC
    y[0] = 1;
#endif
#if USE_VEC
    y[0] = 1;
#endif
}}
"""
ELSEWHERE = IFDEF.replace("= 0;", "= 0 * USE_VEC;")
GUARD = "#ifndef USE_VEC\n#define USE_VEC 0\n#endif\n"
NO_GUARD = '#ifndef USE_VEC\n#error "define USE_VEC"\n#endif\n'
EITHER = f"""{HEAD}0;
#ifdef USE_VEC
#define FIRST 1
#else
#define FIRST 0
#endif
    y[0] = FIRST;
}}
"""
FIRST_IS_ONE = "where([i == 0 for i in arange(n)], 1, 0)"


def of(folder: Path, code: str, values: list[Any], **more: Any) -> Path:
    parameters = {"USE_VEC": values, **more.pop("parameters", {})}
    return written(folder, code, [Y], more.pop("reference", "zeros(n)"), parameters=parameters, **more)


def outcomes(tune: Tune, file: Path, *options: str) -> dict[str, Any]:
    """The configurations of a run that are right, and the number of wrong ones."""
    done = tune(file, "10", "--repeats", "3", "--json", *options)
    return {"failed": done.json["failed"], "best": done.json["best"] and done.json["best"]["config"], "err": done.err}


@pytest.mark.slow
@pytest.mark.parametrize("code", [IFDEF, NOT_DEFINED, WITHIN, TWICE, EITHER])
def test_false_leaves_a_flag_undefined(code: str, tmp_path: Path, tune: Tune) -> None:
    """Only the code without the flag computes zeros."""
    file = of(tmp_path, code, [True, False])
    assert tune("validate", file).status == 0
    found = outcomes(tune, file)
    assert (found["failed"], found["best"]) == ({"wrong result": 1}, {"USE_VEC": False})
    assert "warning" not in found["err"]


@pytest.mark.slow
def test_what_stops_without_a_macro_gets_it(tmp_path: Path, tune: Tune) -> None:
    code = ALIVE["an error without it in a header with a guard"][0]
    assert outcomes(tune, of(tmp_path, code, [False, True]))["failed"] == {}


@pytest.mark.slow
def test_words_and_numbers_define_a_flag(tmp_path: Path, tune: Tune) -> None:
    code = WITHIN.replace("int width = USE_VEC", "USE_VEC width = 1")
    file = of(tmp_path, code, [False, "float", "int"])
    assert tune("validate", file).status == 0
    found = outcomes(tune, file)
    assert (found["failed"], found["best"]) == ({"wrong result": 2}, {"USE_VEC": False})
    (tmp_path / "other").mkdir()
    file = of(tmp_path / "other", AND_MORE, [False, 2, 3])
    assert tune("validate", file).status == 0
    assert outcomes(tune, file)["failed"] == {"wrong result": 1}


@pytest.mark.slow
def test_a_header_may_read_the_flag(tmp_path: Path, tune: Tune) -> None:
    (tmp_path / "own.h").write_text("#ifdef USE_VEC\n#define FIRST 1\n#else\n#define FIRST 0\n#endif\n")
    code = f'#include "own.h"\n{HEAD}0;\n    y[0] = FIRST;\n}}\n'
    file = of(tmp_path, code, [True, False])
    assert outcomes(tune, file)["failed"] == {"wrong result": 1}
    message = "f.c reads it only by #ifdef, and every value but false defines it, so [0, 1] make no difference"
    assert message in tune("validate", of(tmp_path, code, [0, 1])).err


@pytest.mark.slow
def test_a_derived_condition_is_a_flag(tmp_path: Path, tune: Tune) -> None:
    file = of(tmp_path, IFDEF.replace("USE_VEC", "WIDE"), [1, 2], derived={"WIDE": "USE_VEC > 1"})
    assert tune("validate", file).status == 0
    found = outcomes(tune, file)
    assert (found["failed"], found["best"]) == ({"wrong result": 1}, {"USE_VEC": 1})


ONLY = "f.c reads it only by #ifdef, and every value but false defines it, so [{}] make no difference; write {}: false"
DEAD: dict[str, tuple[str, list[Any], dict[str, Any], str, str]] = {
    "numbers": (IFDEF, [0, 1], {}, "parameters.USE_VEC", ONLY.format("0, 1", "false in place of 0")),
    "numbers of an expression": (
        IFDEF, [0, 1], {"restrictions": ["USE_VEC < n"]}, "parameters.USE_VEC", "write false in place of 0"
    ),
    "words": (IFDEF, ["off_", "on_"], {}, "parameters.USE_VEC", ONLY.format("'off_', 'on_'", "[false, true]")),
    "too many values": (IFDEF, [False, 1, 2], {}, "parameters.USE_VEC", ONLY.format("1, 2", "[false, true]")),
    "a condition of existence alone": (NOT_DEFINED, [0, 1], {}, "parameters.USE_VEC", "write false in place of 0"),
    "a default of the source": (
        GUARD + IFDEF, [False, True], {}, "parameters.USE_VEC",
        "f.c only tests whether it is defined, which it is for every value; write #if USE_VEC in place of #ifdef",
    ),
    "an error without it": (NO_GUARD + IFDEF, [0, 1], {}, "parameters.USE_VEC", "write #if USE_VEC in place of #ifdef"),
    "0 where the value is read, too": (
        TWICE, [0, 1], {}, "parameters.USE_VEC", "f.c tests it by #ifdef, and 0 defines it; write false in place of 0"
    ),
    "a value that is needed": (
        ELSEWHERE, [False, True], {}, "parameters.USE_VEC",
        "tests it by #ifdef, and uses its value elsewhere, so it is always defined; write #if USE_VEC in place of",
    ),
    "words that a condition compares": (
        f"{HEAD}0;\n#if USE_VEC == FAST\n    y[0] = 1;\n#endif\n}}", ["FAST", "SLOW"], {}, "parameters.USE_VEC",
        "f.c compares it in #if, where FAST, SLOW are 0, because no macro defines them, so its 2 values make no",
    ),
    "a number that is needed": (ELSEWHERE, [0, 1], {}, "parameters.USE_VEC", "is always defined; write #if USE_VEC"),
    "a derived number": (
        IFDEF.replace("USE_VEC", "WIDE"), [1, 2], {"derived": {"WIDE": "1 if USE_VEC > 1 else 0"}}, "derived.WIDE",
        "every number defines it; write a condition, such as `(1 if USE_VEC > 1 else 0) != 0`: false leaves",
    ),
    "a derived value that is needed": (
        ELSEWHERE.replace("USE_VEC", "WIDE"), [1, 2], {"derived": {"WIDE": "USE_VEC > 1"}}, "derived.WIDE",
        "write #if WIDE in place of #ifdef WIDE",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", DEAD)
def test_values_that_ifdef_does_not_tell_apart_are_refused(what: str, tmp_path: Path, tune: Tune) -> None:
    code, values, more, key, message = DEAD[what]
    file = of(tmp_path, code, values, **more)
    done = tune("validate", file)
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert f" {key}: " in done.err
    assert message in done.err


ALIVE: dict[str, tuple[str, list[Any], dict[str, Any]]] = {
    "a default of the source": (GUARD + f"{HEAD}0 * USE_VEC; }}", [0, 1], {}),
    "an error without it": (NO_GUARD + f"{HEAD}0 * USE_VEC; }}", [False, True], {}),
    "an error without it in a header with a guard": (
        f"#ifndef F_H\n#define F_H\n{NO_GUARD}{HEAD}0;\n#if USE_VEC\n    y[0] = 0;\n#endif\n}}\n#endif", [False, True],
        {},
    ),
    "a condition on existence and value": (AND_MORE, [0, 3], {}),
    "a condition within one": (AND_MORE.replace("#if defined(USE_VEC) &&", "#ifdef USE_VEC\n#if") + "", [0, 3], {}),
    "a number within one": (WITHIN, [0, 1], {}),
    "numbers above 0 of an expression": (IFDEF, [1, 2], {"derived": {"b": "USE_VEC * 2"}, "restrictions": ["b < 9"]}),
    "numbers that are needed": (ELSEWHERE, [0, 2, 4], {}),
    "a single value": (IFDEF, [1], {}),
    "a name that the compiler defines": (
        f"{HEAD}0;\n#ifdef _OPENMP\n#endif\n#if defined(__GNUC__) && USE_VEC\n#endif\n}}", [0, 1], {}
    ),
    "a default of a value that is tested": (
        "#ifndef USE_VEC\n#define USE_VEC 1\n#endif\n" + f"{HEAD}0;\n#if USE_VEC\n    y[0] = 1;\n#endif\n}}", [0, 1], {}
    ),
    "words that macros define": (
        f"#define FAST 1\n#define SLOW 2\n{HEAD}0;\n#if USE_VEC == FAST\n    y[0] = 1;\n#endif\n}}",
        ["FAST", "SLOW"], {},
    ),
    "a derived constant": (IFDEF, [1], {"derived": {"b": 1}}),
}  # fmt: skip


@pytest.mark.parametrize("what", ALIVE)
def test_values_that_matter_are_not_refused(what: str, tmp_path: Path, tune: Tune) -> None:
    code, values, more = ALIVE[what]
    if what == "a condition within one":
        code = code.replace("}\n", "#endif\n}\n")
    done = tune("validate", of(tmp_path, code, values, **more))
    assert (done.status, done.err) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("flag", [False, True])
def test_exports_define_a_flag_only_if_it_is_true(flag: bool, tmp_path: Path, tune: Tune) -> None:
    """The exported header and the exported source compute what the build of tuner computes."""
    reference = {"python": "check.py:expected"}
    (tmp_path / "check.py").write_text(f"def expected(*, n):\n    return [{int(flag)}, *[0] * (n - 1)]\n")
    file = of(tmp_path, IFDEF, [True, False], reference=reference)
    assert outcomes(tune, file)["best"] == {"USE_VEC": flag}
    main = '#include <stdio.h>\nint main(void) { float y[10]; f(y, 10); printf("%d", (int)y[0]); }\n'
    for form, kernel in (("header", tmp_path / "f.c"), ("cu", "")):
        exported = tmp_path / f"exported-{form}.h"
        done = tune("export", file, "10", "--to", form, "--output", exported)
        assert done.status == 0, done.err
        section = re.search(r"#if defined\((\w+)\)", exported.read_text())
        program = tmp_path / f"{form}.c"
        define = f"#define {section[1]}\n" if section else ""
        program.write_text(f'{define}#include "{exported}"\n' + (f'#include "{kernel}"\n' if kernel else "") + main)
        subprocess.run(["gcc", program, "-o", program.with_suffix("")], check=True)
        printed = subprocess.run([program.with_suffix("")], capture_output=True, text=True, check=True).stdout
        assert printed == str(int(flag))


def test_trials_of_a_flag_are_not_those_of_an_earlier_version_for_which_false_defined_it(tmp_path: Path) -> None:
    hashes = [Version.of(catalog.load(str(of(tmp_path, IFDEF, values)))).code for values in ([False, True], [1, 2])]
    assert hashes[0] != hashes[1]
