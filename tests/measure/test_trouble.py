"""Only what compiler, driver and comparison say of a kernel counts against it: whatever else goes wrong is said, tried
again, and kept by no ledger."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.ledgers import finished, outcomes
from helpers.processes import Done, Tune, of_this_test
from tuner.devices import environment
from tuner.devices.cuda.driver.context import reason_of

pytestmark = pytest.mark.slow
KEPT = "all measurements are kept, and the same command continues from there"
COMPILER = """#!/bin/sh
for file; do
    case "$file" in *.c) grep -q "define v 1$" "$file" && [ ! -e "{mark}" ] && {{
        {first}
        {deed}
    }} ;; esac
done
exec cc "$@"
"""
Saboteur = Callable[..., Path]
Run = Callable[[Path], Done]


@pytest.fixture
def saboteur(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saboteur:
    """A compiler that does something else when it is to compile v=1: the first time, or always."""
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))

    def write(deed: str, always: bool = False) -> Path:
        compiler, mark = tmp_path / "cc", tmp_path / "done"
        compiler.write_text(COMPILER.format(mark=mark, first=":" if always else f'touch "{mark}"', deed=deed))
        compiler.chmod(0o755)
        monkeypatch.setenv("CC", str(compiler))
        return compiler

    return write


@pytest.fixture
def three(stage: Stage) -> Path:
    """Three right configurations."""
    return stage(c_kernel("right", MULTIPLY), "right", "{v: [0, 1, 2]}")


@pytest.fixture
def run(tune: Tune) -> Run:
    return lambda file: tune(file, "8", "--device", "host", "--json")


def check_costs_nothing(done: Done, configurations: int, folder: Path) -> None:
    assert done.status == 0, done.err
    assert done.json["failed"] == {}, done.err
    assert outcomes(folder) == {json.dumps({"v": v}): None for v in range(configurations)}
    said = [line for line in done.err.splitlines() if line.endswith("trying again")]
    assert len(said) == len(set(said)), "each is said once"
    assert of_this_test() == []


ONCE = {
    "the cache is deleted": 'rm -rf "$TUNER_CACHE"',
    "its temporary folder is deleted": 'rm -rf "$TMPDIR"',
    "what it compiles is deleted": 'rm -rf "${file%/*}"',
    "the disk fails": 'echo "cc1: fatal error: $file: Input/output error" >&2; exit 1',
    "a server of files forgets": 'echo "$file:1:10: fatal error: stdlib.h: Stale file handle" >&2; exit 1',
    "nobody has listed this": 'echo "collect2: fatal error: the linker is upset" >&2; exit 1',
    "it says nothing": "exit 3",
    "it writes nothing": "exit 0",
    "it is not there": "exit 127",
    "it crashes": "kill -SEGV $$",
}


def test_trouble_that_passes_costs_no_configuration(saboteur: Saboteur, stage: Stage, tmp_path: Path, run: Run) -> None:
    """Each configuration has a trouble of its own."""
    deeds = "".join(f"{v}) touch {tmp_path}/trouble-{v}; {deed} ;;\n" for v, deed in enumerate(ONCE.values()))
    number = """v=$(sed -n 's/^#define v //p' "$file" | uniq)"""
    compiler = saboteur("")
    compiler.write_text(f"""#!/bin/sh
for file; do
    case "$file" in *.c) {number}; [ -e {tmp_path}/trouble-$v ] || case "$v" in
        {deeds}
    esac ;; esac
done
exec cc "$@"
""")
    values = [*range(len(ONCE) + 1)]
    check_costs_nothing(run(stage(c_kernel("right", MULTIPLY), "right", f"{{v: {values}}}")), len(values), tmp_path)
    for v, deed in enumerate(ONCE):
        assert (tmp_path / f"trouble-{v}").exists(), deed


def test_trouble_of_one_configuration_alone_is_not_stored_and_the_others_are_measured(
    saboteur: Saboteur, three: Path, tmp_path: Path, run: Run
) -> None:
    compiler = saboteur('echo "cc1: fatal error: $file: Input/output error" >&2; exit 1', always=True)
    done = run(three)
    assert done.status == 0, done.err
    assert done.json["failed"] == {"machine trouble": 1}
    assert outcomes(tmp_path) == {json.dumps({"v": v}): None for v in (0, 2)}
    said = "compiling right: a file cannot be used: Input/output error; no configuration is to blame; trying again"
    assert done.err.count(said) == 1, done.err
    compiler.write_text('#!/bin/sh\nexec cc "$@"\n')
    assert run(three).json["failed"] == {}
    assert len(outcomes(tmp_path)) == 3


def test_a_header_that_is_missing_counts_after_an_empty_kernel_has_been_compiled(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    before = "#if v == 1\n#include <no/such/file>\n#endif"
    done = run(stage(c_kernel("right", MULTIPLY, before), "right", "{v: [0, 1, 2]}"))
    assert done.status == 0, done.err
    assert done.json["failed"] == {"compile": 1}
    assert len(outcomes(tmp_path)) == 3


def test_what_the_compiler_says_of_one_kernel_alone_counts_whatever_its_words(
    saboteur: Saboteur, three: Path, tmp_path: Path, run: Run
) -> None:
    saboteur('echo "cc1: internal compiler error: in gimplify_expr" >&2; exit 4', always=True)
    done = run(three)
    assert done.status == 0, done.err
    assert done.json["failed"] == {"compile": 1}
    assert sorted(map(str, outcomes(tmp_path).values())) == ["None", "None", "compile"]


LASTING = {
    "the compiler is deleted": ('rm "$0"', "no C compiler found; install one .* or set CC"),
    "the compiler is replaced": (
        'echo "#!/bin/sh" > "$0.new"; echo "exec cc \\"\\$@\\"" >> "$0.new"; chmod 755 "$0.new"; mv "$0.new" "$0"',
        "the compiler has changed since this run began",
    ),
    "the compiler lost a part": (
        'printf "#!/bin/sh\\necho no cc1plus >&2; exit 1\\n" > "$0.new"; touch -r "$0" "$0.new"; cat "$0.new" > "$0"',
        "the compiler (has changed since|does not build an empty kernel)",
    ),
    "a file lies where the cache was": (
        # Others may put files into the folder, or make it again, meanwhile: then a single attempt would change nothing.
        'until [ -f "$TUNER_CACHE" ]; do mv -T "$TUNER_CACHE" "$TUNER_CACHE.$((n += 1))"; touch "$TUNER_CACHE"; done',
        r"(cache|builds|scratch)[^:]*: (cannot be used: )?(File exists|Not a directory)",
    ),
}


@pytest.mark.parametrize(("deed", "said"), LASTING.values(), ids=LASTING)
def test_trouble_that_lasts_ends_the_run_with_one_message_and_once_it_is_mended_the_run_goes_on(
    deed: str, said: str, saboteur: Saboteur, three: Path, tmp_path: Path, run: Run
) -> None:
    compiler = saboteur(deed)
    done = run(three)
    assert done.status == 2, done.err
    assert "Traceback" not in done.err
    assert re.search(said, done.err.splitlines()[-1]), done.err
    assert done.err.splitlines()[-1].endswith(KEPT)
    assert not any(outcomes(tmp_path).values())
    compiler.write_text('#!/bin/sh\nexec cc "$@"\n')
    compiler.chmod(0o755)
    (tmp_path / "cache").is_file() and (tmp_path / "cache").unlink()
    again = run(three)
    assert (again.status, again.json["failed"]) == (0, {}), again.err
    assert outcomes(tmp_path) == {json.dumps({"v": v}): None for v in range(3)}
    assert all(count == 1 for count in finished(tmp_path).values())


def test_a_cache_that_a_kernel_or_anybody_deletes_while_configurations_are_measured_costs_none(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TUNER_CACHE", str(cache))
    before = f'#define CLEAR "rm -rf {cache}"'
    body = f"static int n; if (!n++) system(CLEAR); {MULTIPLY}"
    done = run(stage(c_kernel("clears", body, before), "clears", "{v: [0, 1, 2, 3, 4, 5]}"))
    assert (done.status, done.json["failed"]) == (0, {}), done.err
    assert set(outcomes(tmp_path).values()) == {None}


def test_a_missing_folder_for_temporary_files_is_no_failure(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    done = run(three)
    assert (done.status, done.json["failed"]) == (0, {}), done.err


def test_a_compiler_that_speaks_of_the_source_is_believed_at_once(
    tune: Tune, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    compiler, count = tmp_path / "cc", tmp_path / "count"
    compiler.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo >> {count};; esac\nexec {shutil.which("cc")} "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    bodies = ["this does not compile;", "missing_function();", "int again = 1, again = 2;"]
    body = "".join(f"\n#{'if' if not n else 'elif'} v == {n}\n{text}" for n, text in enumerate(bodies)) + "\n#endif"
    done = tune(stage(c_kernel("wrong", f"{body}\n{MULTIPLY}"), "wrong", "{v: [0, 2, 3]}"), "8", "--json")
    assert done.json["failed"] == {"compile": 2}, done.err
    assert len(count.read_text().splitlines()) <= 5, "each is compiled once, beside our own kernels"


@pytest.mark.parametrize(
    ("log", "speaks"),
    [
        ("k.c:3:10: fatal error: foo.h: No such file or directory", False),
        ("k.cu(3): error: expected a declaration", True),
        ('k.cu(3): catastrophic error: cannot open source file "foo.h"', False),
        ("ptxas error   : Entry function 'k' uses too much shared data", True),
        ("/usr/bin/ld: k.o: in function `k':\nk.c:(.text+0x5): undefined reference to `f'", True),
        ("gcc: error: unrecognized command-line option '-fno-such'", True),
        ("error: /tmp/pocl/tempfile.cl:3:5: unknown type name 'foo'", True),
        ("collect2: fatal error: cannot find 'ld'", False),
        ("gcc: fatal error: cannot execute 'cc1': execvp: No such file or directory", False),
        ("nvrtc: error: failed to open libnvrtc-builtins.so.13.0.", False),
    ],
)
def test_only_a_log_with_a_place_in_the_source_or_an_option_speaks_of_the_source(log: str, speaks: bool) -> None:
    assert environment.speaks_of_source(log) == speaks


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (700, "illegal memory access"),
        (719, None),  # launch failed
        (1, None),  # invalid value
        (214, environment.OTHER),  # an uncorrectable error of the memory
        (304, environment.OTHER),  # the operating system
        (46, environment.OTHER),  # the device is not available
        (999, environment.OTHER),  # unknown
    ],
)
def test_a_status_of_cuda_that_says_nothing_of_a_kernel_is_trouble_of_the_machine(
    status: int, reason: str | None
) -> None:
    assert reason_of(status) == reason
