"""A macro or constant that a kernel file defines is a knob: the text compiled has the configuration's value."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune, run
from tuner.catalog import catalog, kernel_lists
from tuner.space.sources import definitions
from tuner.space.sources.includes import inlined
from tuner.space.sources.rendering import Version
from tuner.space.sources.source_text import macro_names

Y, X = array("y", "float32", ["n"], "out"), array("x", "float32", ["n"])
TIMES = "void f(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = SCALE * x[i]; }\n"
DEFINED = {  # the file, and the line that the compiler gets for the value 5
    "a macro": ("#define SCALE 4\n" + TIMES, "#define SCALE 5"),
    "a macro with a comment": ("#define SCALE 4 // or 8\n" + TIMES, "#define SCALE 5 // or 8"),
    "an expression": ("#define SCALE (2 * 2)\n" + TIMES, "#define SCALE 5"),
    "two lines": ("#define SCALE 2 + \\\n  2\n" + TIMES, "#define SCALE 5"),
    "an indented macro": ("#  define SCALE\t4\n" + TIMES, "#  define SCALE\t5"),
    "a constant": ("const int SCALE = 4;\n" + TIMES, "const int SCALE = 5;"),
    "a static constant": ("static const int OTHER = 3, SCALE = 2 * 2;\n" + TIMES, "OTHER = 3, SCALE = 5;"),
    "an enumerator": ("enum { OTHER, SCALE = 4, LAST };\n" + TIMES, "enum { OTHER, SCALE = 5, LAST };"),
    "a constant of the function": (TIMES.replace("{ for", "{ const int SCALE = 4; for"), "const int SCALE = 5;"),
    "a branch": ("#ifdef FAST\n#define SCALE FAST\n#else\n#define SCALE 4\n#endif\n" + TIMES, "#define SCALE 5"),
    "a header": ('#include "scale.h"\n' + TIMES, "#define SCALE 5"),
    "the same twice": ("#define SCALE 4\n#define SCALE 4\n" + TIMES, "#define SCALE 5"),
}
HEADER = "#ifndef SCALE_H\n#define SCALE_H\n#define SCALE 4\n#endif\n"


def of(folder: Path, code: str, reference: str = "5 * x", **more: Any) -> Path:
    (folder / "scale.h").write_text(HEADER)
    return written(folder, code, [Y, X], reference, **{"parameters": {"SCALE": [5, 7]}, **more})


@pytest.mark.parametrize("idiom", DEFINED)
def test_the_value_stands_where_the_file_has_its_own(idiom: str, tmp_path: Path, tune: Tune) -> None:
    code, line = DEFINED[idiom]
    done = tune("validate", of(tmp_path, code), "64", "--show-source", "--compile", "--json")
    (source,) = done.json["sources"]
    assert line in source
    assert not re.search(r"\b4\b", source.replace("scale.h", ""))
    assert done.json["warnings"] == []


def test_a_kernel_with_its_own_values_is_tuned_and_verified(tmp_path: Path, tune: Tune) -> None:
    """Each value enters the result, so a value that is not replaced is an error of the result."""
    code = (
        '#include "scale.h"\n#define MORE 2\nenum { STEPS = 3 };\nstatic const int BASE = 1;\n#define WIDE\n'
        "void f(float *y, const float *x, int n) {\n    const float HALF = 0.25f;\n"
        "    for (int i = 0; i < n; i++) y[i] = SCALE * x[i] + MORE * STEPS + BASE + HALF;\n"
        "#ifdef WIDE\n    y[0] = -1;\n#endif\n}\n"
    )
    parameters = {"SCALE": [7], "MORE": [10], "STEPS": [20], "BASE": [300], "HALF": [0.5], "WIDE": [False]}
    file = of(tmp_path, code, "7 * x + 500.5", parameters=parameters)
    done = tune(file, "64", "--device", "host", "--json")
    assert (done.status, done.json["best"]["verified"]) == (0, "expression"), done.err


def test_the_value_that_the_file_has_is_no_part_of_the_identity(tmp_path: Path) -> None:
    def version(code: str) -> Version:
        return Version.of(catalog.load(str(of(tmp_path, code))))

    for code, _ in DEFINED.values():
        own = version(code)
        assert version(code.replace("4", "64").replace("2 * 2", "9")) == own
        assert version(code.replace("n; i++", "n; i += 1")) != own
    assert version(DEFINED["a macro"][0]) != version(DEFINED["a constant"][0]), "its type decides"
    (tmp_path / "scale.h").write_text(HEADER)
    own = version(DEFINED["a header"][0])
    assert Version.of(catalog.load(str(tmp_path / "f.yaml"))) == own
    (tmp_path / "scale.h").write_text(HEADER.replace("4", "8"))
    assert Version.of(catalog.load(str(tmp_path / "f.yaml"))) == own


def test_lines_keep_their_numbers(tmp_path: Path, tune: Tune) -> None:
    """An error of the compiler names the line of the user's file, below definitions of several lines, too."""
    code = "#define SCALE 2 + \\\n  2\n#define WIDE \\\n\n#ifdef WIDE\n#endif\n" + TIMES.replace(
        "SCALE *", "SCALE * MISSING *"
    )
    file = of(tmp_path, code, parameters={"SCALE": [5], "WIDE": [False]})
    done = tune("validate", file, "64", "--compile")
    assert done.status == 2
    assert f"f.c:{code[: code.index('MISSING')].count(chr(10)) + 1}:" in done.err


def test_a_flag_that_the_file_sets_is_unset_by_false(tmp_path: Path, tune: Tune) -> None:
    code = "#define WIDE\n" + TIMES.replace("SCALE *", "\n#ifdef WIDE\n2 *\n#endif\n") + "// WIDE\n"
    file = of(tmp_path, code, "x", parameters={"WIDE": [False]})
    assert tune(file, "64", "--device", "host").status == 0
    file = of(tmp_path, code, "2 * x", parameters={"WIDE": [True]})
    assert tune(file, "64", "--device", "host", "--fresh").status == 0


ANOTHER = "static float g(void) { const int SCALE = 2; return SCALE; }\n"
OWN = TIMES.replace("{ for", "{ const int SCALE = 3; for")


def test_a_size_that_the_file_defines_is_that_of_the_run(tmp_path: Path, tune: Tune) -> None:
    """As a default under #ifndef, too. Code of another size is another build, and a variable of its name stays."""
    code = (
        "#define WIDTH 4096\n#ifndef DEPTH\n#define DEPTH 17\n#endif\n"
        "void f(float *y, const float *x, int n) {\n    for (int i = 0; i < WIDTH; i++) {\n"
        "        const int HEIGHT = i * 0;\n        y[i] = x[i] + WIDTH + DEPTH + HEIGHT;\n    }\n}\n"
    )
    (tmp_path / "f.c").write_text(code)
    sizes = {"WIDTH": 4096, "DEPTH": 3, "HEIGHT": 7}
    arrays = [array("y", "float32", ["WIDTH"], "out"), array("x", "float32", ["WIDTH"])]
    file = written(tmp_path, code, arrays, "x + WIDTH + DEPTH", sizes={**sizes, "n": 1}, extent=["WIDTH"])
    for size in ("WIDTH=64", "WIDTH=32,DEPTH=5"):
        done = tune(file, size, "--device", "host", "--json")
        assert (done.status, done.json["best"]["verified"]) == (0, "expression"), done.err
    own = Version.of(catalog.load(str(file)))
    (tmp_path / "f.c").write_text(code.replace("4096", "512").replace("17", "1"))
    assert Version.of(catalog.load(str(file))) == own


FAULTS = {
    "two values": (
        "#define SCALE 4\n\n#undef SCALE\n#define SCALE 8\n" + TIMES,
        "line 1 defines it as 4, and line 4 defines it as 8",
    ),
    "two functions": (ANOTHER + OWN, "line 1 defines it as 2, and line 2 defines it as 3"),
    "a header": (
        '#include "scale.h"\n#undef SCALE\n#define SCALE 8\n' + TIMES,
        "line 3 of scale.h defines it as 4, and line 3 of f.c defines it as 8",
    ),
    "what is computed": (TIMES.replace("{ for", "{ const int SCALE = n / 2; for"), "line 1 computes it as `n / 2`"),
    "arguments": ("#define SCALE(a) (a)\n" + TIMES.replace("SCALE", "SCALE(2)"), "f.c defines it with arguments"),
    "a constant that is not used": (
        "static const int SCALE = 4;\n" + TIMES.replace("SCALE", "2"), "neither f.c nor an expression uses it"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_no_value_can_stand_for_is_one_message(fault: str, tmp_path: Path, tune: Tune) -> None:
    code, message = FAULTS[fault]
    done = tune("validate", of(tmp_path, code), "64")
    assert (done.status, len(done.err.splitlines())) == (2, 1), done.err
    assert " parameters.SCALE: " in done.err
    assert message in done.err


def test_shipped_kernels_leave_their_parameters_to_the_space() -> None:
    """So a launch of theirs need not look for definitions, and their records stay valid."""
    for space in map(catalog.load, kernel_lists.names()):
        for path in space.sources:
            macros, sizes = frozenset(macro_names(space)), frozenset(space.operation.sizes)
            found = definitions.of(inlined(path, space.include), macros | sizes, with_defaults=sizes - macros)
            assert (found.names, found.faults) == (frozenset(), {}), path


def test_the_best_values_are_written_back_as_a_patch(tmp_path: Path, tune: Tune) -> None:
    """With the lines of the host that read them, the launch, and what no file defines; the patched files have them."""
    code = (
        '#include "tile.h"\n#include <cstdio>\n#ifndef UNROLL\n#define UNROLL 1\n#endif\nconst int BLOCK = 64;\n'
        "__global__ void f(float *y, int n) {\n    for (int i = 0; i < TILE * UNROLL * MORE; i++) y[i] = BLOCK;\n}\n"
        "int main() {\n    f<<<1, BLOCK>>>(nullptr, 1); // BLOCK\n    return TILE;\n}"
    )
    (tmp_path / "tile.h").write_bytes(b"#define TILE 4\r\n#define OTHER 2\r\n")
    parameters = {"BLOCK": [128], "TILE": [8], "UNROLL": [2], "MORE": [3]}
    more = {"block": ["BLOCK"], "grid": ["ceil_div(n, TILE)"], "parameters": parameters}
    file = written(tmp_path, code, [Y], "none", "cuda", **more)
    patch = tmp_path / "best.patch"
    request = (file, "64", "--to", "patch", "--device", "A100", "--results", tmp_path / "none", "--output", patch)
    assert tune("export", *request).status == 2, "no device is known"
    from tuner.exchange.exports import patch as patches
    from tuner.exchange.exports.target import Problem, Target, TargetDevice

    target = Target.of(Problem.parse(catalog.load(str(file)), "64", {}), TargetDevice.remote("cuda", "sm_80", "A100"))
    patch.write_bytes(patches.text(target, patch.name).encode())
    text = patch.read_text()
    assert "Launch f with grid (8, 1, 1), block (128, 1, 1)." in text
    assert "-DMORE=3" in text
    assert "-DUNROLL" not in text
    assert re.findall(r"f\.cu:(\d+): (.*)", text) == [("11", "f<<<1, BLOCK>>>(nullptr, 1);"), ("12", "return TILE;")]
    command = next(line for line in text.splitlines() if line.startswith("# To apply it: ")).partition(": ")[2]
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    changed = code.replace("UNROLL 1", "UNROLL 2").replace("BLOCK = 64", "BLOCK = 128")
    assert (tmp_path / "f.cu").read_text() == changed
    assert (tmp_path / "tile.h").read_bytes() == b"#define TILE 8\r\n#define OTHER 2\r\n"


def test_a_patch_is_refused_where_there_is_nothing_to_write(tmp_path: Path, tune: Tune) -> None:
    request = ("64", "--to", "patch", "--device", "host", "--output", tmp_path / "p")
    done = tune("export", of(tmp_path, TIMES), *request)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "f.c defines no parameter of" in done.err
    done = tune("export", of(tmp_path, "#define SCALE 5\n" + TIMES), *request)
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "SCALE would not change, for nothing was measured on " in done.err
    done = tune("export", of(tmp_path, "#define SCALE 4\n" + TIMES), "64", "--to", "header", "--device", "host")
    assert (done.status, done.err.count("\n")) == (2, 1)
    assert "f.c defines SCALE itself, in place of the header's value; write #ifndef around each, or use" in done.err
    program = "void f(float *y, const float *x, int n);\n#define SCALE 4\n"
    (tmp_path / "program.cpp").write_text(program)
    (tmp_path / "another.cpp").write_text(program.replace("f(", "g("))
    code = "#define SCALE 4\n" + TIMES
    assert tune("export", of(tmp_path, code), *request).status == 0
    patch = (tmp_path / "p").read_text()
    assert "# Other files that define them, which this patch leaves as they are:\n#   program.cpp: SCALE\n#" in patch
    run("patch", "-d", tmp_path, "-p1", "-i", tmp_path / "p")
    assert (tmp_path / "f.c").read_text() == "#define SCALE 5\n" + TIMES


def test_an_exported_source_with_a_main_is_linked_with_another(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = of(tmp_path, "#define SCALE 4\n" + TIMES + "int main(void) { return 1; }\n")
    assert tune("export", file, "64", "--to", "cu", "--device", "host", "--output", "best.c").status == 0
    assert "The file has a main(): to link it with another program, add -Dmain=unused\n" in Path("best.c").read_text()
    Path("main.c").write_text("int main(void) { return 0; }\n")
    run("cc", "-Dmain=unused", "-c", "best.c")
    run("cc", "main.c", "best.o", "-o", "program")
    run("./program")
