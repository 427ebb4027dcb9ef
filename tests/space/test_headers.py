"""Headers of the user's own: where they are looked for, and that they are part of the text and of its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune
from tuner.catalog import catalog
from tuner.space.sources import includes, rendering

Y = array("y", "float32", ["n"], "out")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A kernel of C that needs two headers of ../common, in quotes and in <>, which need one another."""
    common, own = tmp_path / "common", tmp_path / "kernels"
    for folder in (common / "deep", own):
        folder.mkdir(parents=True)
    (common / "first.h").write_text("#include <deep/second.h>\n#define VALUE (SECOND + 1)\n")
    (common / "deep/second.h").write_text("#include <math.h>\n#define SECOND 1\n")
    code = '#include "first.h"\nvoid f(float *y, int n) { for (int i = 0; i < n; i++) y[i] = fabsf(VALUE) + a; }\n'
    return written(own, code, [Y], "full(n, 3.0)", include=["../common"])


def test_a_source_may_ask_whether_a_header_of_its_folders_is_there(file: Path, tune: Tune) -> None:
    source = file.parent / "f.c"
    asked = '#if __has_include("first.h") && __has_include(<math.h>) && !__has_include("third.h")'
    source.write_text(source.read_text().replace('#include "first.h"', f'{asked}\n#include "first.h"\n#endif'))
    done = tune("validate", file, "--compile")
    assert done.status == 0, done.err


def test_c_has_what_compilers_have_of_its_headers_without_a_standard(file: Path, tune: Tune) -> None:
    source = file.parent / "f.c"
    head = "#include <math.h>\n#include <stdlib.h>\n"
    source.write_text(f"{head}{source.read_text().replace('+ a', '+ a + 0 * (float)(M_PI + drand48())')}")
    done = tune("validate", file, "--compile")
    assert done.status == 0, done.err


def test_a_header_that_only_another_build_includes_may_be_missing(file: Path, tune: Tune) -> None:
    source = file.parent / "f.c"
    guard, skipped = "#ifndef F\n#define F\n", '#ifdef WITH_TIMES\n#include "times.h"\n#endif\n'
    source.write_text(f"{guard}{skipped}{source.read_text()}#endif\n")
    done = tune("validate", file, "--compile")
    assert (done.status, "times.h" in done.err) == (0, False), done.err
    source.write_text(source.read_text().replace(skipped, f'{skipped}#include "needed.h"\n'))
    done = tune("validate", file)
    assert (done.status, 'f.c:6: #include "needed.h" is not in' in done.err) == (2, True), done.err


@pytest.mark.slow
def test_a_kernel_with_headers_of_another_folder_is_tuned(file: Path, tune: Tune) -> None:
    assert tune("validate", file).status == 0
    done = tune(file, "100", "--device", "host", "--json")
    assert (done.status, done.json["failed"]) == (0, {}), done.err


def test_an_edited_header_makes_another_kernel(file: Path) -> None:
    space = catalog.load(str(file))
    before = rendering.signature(space)
    header = file.parent.parent / "common/deep/second.h"
    header.write_text(f"{header.read_text()}// a comment\n")
    assert rendering.signature(space) == before
    header.write_text(header.read_text().replace("SECOND 1", "SECOND 2"))
    assert rendering.signature(space) != before


def test_a_header_beside_the_kernel_comes_first_from_when_it_is_there(file: Path) -> None:
    for each in file.parent.parent.rglob("*.*"):
        os.utime(each, (1, 1))  # its text is kept then
    space = catalog.load(str(file))

    def shown() -> tuple[bool, bool]:
        text = includes.inlined(space.sources[0], space.include)
        return "VALUE 7" in text, "SECOND" in text

    assert (shown(), shown()) == ((False, True), (False, True))
    (file.parent / "first.h").write_text("#define VALUE 7\n")
    assert shown() == (True, False)
    (file.parent / "first.h").unlink()
    assert shown() == (False, True)


@pytest.mark.parametrize(
    ("include", "message"),
    [
        (["../nowhere"], "include.0: "),
        ([], '#include "first.h" is not in'),
        (["../common/first.h"], "there is no such folder"),
    ],
)
def test_a_folder_that_is_missing_is_one_message(include: list[Any], message: str, file: Path, tune: Tune) -> None:
    file.write_text(file.read_text().replace("- ../common", "").replace("include:", f"include: {include}"))
    done = tune("validate", file)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
    assert message in done.err
