"""What the documents say is what happens."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tuner
import tuner.door
from helpers import ROOT
from helpers.documents import DOCS, TEXTS, VERBS, all_commands_of, blocks, code_spans, prose, shell_commands
from helpers.processes import PATIENCE_SECONDS, Done
from helpers.records import record, sizes
from tuner.launch import frozen
from tuner.report import store_tables
from tuner.space.dtypes import DTYPES
from tuner.space.texts import short_size
from tuner.store.store import Store
from tuner.version import VERSION

README = (ROOT / "README.md").read_text()
PROGRAMS = {  # that a shell block of a page may call
    ".", "./example", "build/scale", "cc", "cd", "cmake", "cp", "dask", "docker", "echo", "eval", "export", "git",
    "mkdir", "mypy", "pip", "pytest", "python", "ray", "ruff", "sh", "srun", "tune", "_TUNE_COMPLETE",
}  # fmt: skip
NEEDS_GPU = "# needs a GPU"  # the first words of a block in Python that does
TABLES = {
    "results": "docs/results.md",
    "gains": "docs/results.md",
    "ladder": "docs/results.md",
    "gallery": "docs/gallery.md",
}
MOST_LINES = 150


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_ci_runs_the_readmes_second_command_and_nothing_else() -> None:
    first, second = blocks(README, "sh")[:2]
    assert len(first.splitlines()) == len(second.splitlines()) == 1
    script = (ROOT / ".ci/run").read_text().splitlines()
    commands = [line for line in script if line and not line.startswith("#") and line.split()[0] not in ("set", "cd")]
    assert commands == [second.strip()]


def test_the_readme_is_one_screen_and_a_half() -> None:
    assert len(README.splitlines()) <= MOST_LINES


@pytest.mark.parametrize("page", TEXTS)
def test_every_link_leads_to_a_file_and_a_heading(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(TEXTS[page])):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.is_file(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_the_changelog_begins_with_this_version_and_pages_link_it() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.findall(r"^## (\S+)", changelog, re.MULTILINE)[0] == VERSION
    links = {page: re.findall(r"changelog\]\(([^)]+)\)", text, re.IGNORECASE) for page, text in TEXTS.items()}
    assert {link for found in links.values() for link in found} == {"../CHANGELOG.md"}


def test_the_index_links_every_page() -> None:
    index = TEXTS["docs/README.md"]
    assert [path.name for path in DOCS if path.name != "README.md" and f"]({path.name})" not in index] == []


def test_a_page_begins_with_whom_it_is_for() -> None:
    pages = {page: text for page, text in TEXTS.items() if not page.endswith("README.md")}
    assert [page for page, text in pages.items() if not re.match(r"# .*\n\nThis page is for ", text)] == []


def test_every_verb_is_documented_and_has_an_example() -> None:
    for name, command in VERBS.items():
        assert "Example: tune" in (command.help or ""), name
        if not command.hidden:
            assert f"\ntune {name} " in TEXTS["docs/using.md"], name


def test_the_shell_blocks_of_pages_are_of_known_programs_and_are_read_by_a_shell() -> None:
    for page, text in TEXTS.items():
        for block in blocks(text, "sh"):
            subprocess.run(["sh", "-n"], input=block, text=True, check=True)
        assert {words[0].partition("=")[0] for words in shell_commands(text)} <= PROGRAMS, page


@pytest.mark.parametrize("line", all_commands_of("python"))
def test_a_documented_benchmark_exists_and_has_the_options_and_files_that_it_names(line: str) -> None:
    script, *arguments = shlex.split(line)
    source = (ROOT / script).read_text()
    for argument in arguments:
        if argument.startswith("--"):
            assert f'"{argument}"' in source, argument
        elif argument.startswith(("results/", "benchmarks/")):
            assert list(ROOT.glob(argument)), argument


def test_every_option_that_a_sentence_names_exists() -> None:
    options = {option for command in VERBS.values() for each in command.params for option in each.opts}
    for page, text in TEXTS.items():
        named = {span.split()[0] for span in code_spans(text) if span.startswith("--")}
        assert named <= options | {"--help"}, page


def test_the_tables_show_what_the_store_holds() -> None:
    tables = store_tables.tables(store_tables.rows("H200", Path("/nowhere")))
    assert TABLES.keys() - {"gallery"} <= tables.keys() <= TABLES.keys()
    for name, table in tables.items():
        text = TEXTS[TABLES[name]]
        assert text.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0].strip() == table
        assert len(table.splitlines()) >= 6


def test_the_figures_of_the_readme_are_those_of_records_and_pages() -> None:
    said = re.search(
        r"half of the stages[^.]* at least ([\d.]+) x as\s+fast. The\s+fastest[^.]*BF16 is ([\d.]+) x", README
    )
    assert said is not None
    at_size = [
        row
        for row in store_tables.rows("H200", Path("/nowhere"))
        if short_size(row.record.sizes) == store_tables.LADDER_SIZE
    ]
    gains = [
        row.record.default_ms / row.record.time_ms
        for row in at_size
        if row.kernel.startswith(("sgemm/", "hgemm/")) and row.record.default_ms is not None
    ]
    assert sum(gain >= float(said[1]) for gain in gains) >= len(gains) / 2
    products = [
        row.record.library_ms / row.record.time_ms
        for row in at_size
        if row.kernel.startswith("gemm16/") and row.record.types == {"real": "bfloat16"} and row.record.library_ms
    ]
    assert f"{max(products):.2f}" == said[2]
    beside = TEXTS["docs/gallery.md"].partition("<!-- peers: begin -->")[2]
    (softmax,) = (line for line in beside.splitlines() if line.startswith("| softmax |"))
    said = re.search(r"softmax is ([\d.]+) x as fast as\s+torch's, at (\d+) %", README)
    assert said is not None
    shares = re.findall(r"([\d.]+)% of|([\d.]+) x torch", softmax)
    assert (f"{float(shares[1][1]):.1f}", f"{float(shares[0][0]):.0f}") == said.groups()


@pytest.mark.slow
def test_a_table_is_written_between_the_markers(tmp_path: Path, tune: Callable[..., Done]) -> None:
    file = tmp_path / "page.md"
    assert tune("03_naive", "16", "--device", "opencl", "--budget", "3").status == 0
    for name in ("results", "gains"):
        file.write_text(f"a\n<!-- {name}: begin -->\nold\n<!-- {name}: end -->\nb\n")
        assert tune("report", "--write", file).status == 0
        assert file.read_text().startswith(f"a\n<!-- {name}: begin -->\n| gemm16 on NVIDIA H200 |")
        assert file.read_text().endswith(f"|\n<!-- {name}: end -->\nb\n")
    file.write_text("<!-- gains: begin -->")
    assert "<!-- gains: end -->" in tune("report", "--write", file).err
    file.write_text("no markers")
    done = tune("report", "--write", file)
    assert (done.status, file.read_text()) == (2, "no markers")


@pytest.mark.slow
def test_no_table_has_an_empty_column_or_a_figure_without_a_unit(tmp_path: Path) -> None:
    bare = record(sizes={"n": 64}, gflops=None, gbytes=None, library=None, vs_library=None, default_ms=None, config={})
    Store("mine/one", tmp_path).add(dataclasses.replace(bare, device="Fast"))
    Store("gallery/one", tmp_path).add(dataclasses.replace(bare, device="Fast"))
    parts = [
        part for text in store_tables.tables(store_tables.rows("", tmp_path)).values() for part in text.split("\n\n")
    ]
    assert len(parts) > 6
    for part in parts:
        header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines()]
        for column, name in enumerate(header):
            assert any(row[column] for row in rows), (name, part)
            for figure in (row[column] for row in rows if re.match(r"[\d.,]+", row[column])):
                assert re.match(r"[\d.,]+( to [\d.,]+)?( ms| x|%| GFLOP/s| GB/s)", figure), figure


@pytest.mark.slow
def test_the_ladder_has_a_table_for_each_device_with_its_library_and_what_is_known(tmp_path: Path) -> None:
    at_4096 = record(sizes=sizes(4096), gflops=500.0, time_ms=2.0)
    measured = {"library": "cuBLAS 1", "library_ms": 1.0, "vs_library": 0.5, "default_ms": 3.0}
    for kernel, changes in {
        "mine/one": {"device": "Fast", **measured},
        "mine/two": {"device": "Fast", "gflops": 250.0, "time_ms": 4.0, "error": None, "bound": None},
        "mine/three": {"device": "Slow", "gflops": None, "default_ms": 400.0},
        "mine/four": {"device": "Slow", "sizes": sizes(2048)},
    }.items():
        Store(kernel, tmp_path).add(record(**{**vars(at_4096), **changes}))
    mine = [row for row in store_tables.rows("", tmp_path) if row.kernel.startswith("mine/")]
    head = "at 4096 | rate | share of cuBLAS | gain over the published constants |\n|---|---:|---:|---:|"
    assert store_tables.tables(mine)["ladder"] == (
        f"| Fast {head}\n"
        "| mine/one | 500 GFLOP/s | 50.0% | 1.50 x |\n"
        "| mine/two | 250 GFLOP/s, imported |  |  |\n"
        "| mine: cuBLAS 1 | 1,000 GFLOP/s |  |  |\n\n"
        "| Slow at 4096 | rate | gain over the published constants |\n|---|---:|---:|\n"
        "| mine/three | 2 ms | 200 x |"
    )
    assert "ladder" not in store_tables.tables([row for row in mine if row.kernel == "mine/four"])


@pytest.mark.slow
def test_tables_name_both_anchors_where_a_record_has_both(tmp_path: Path) -> None:
    best = {"best_library": "cuBLASLt 1 (best of 32)", "best_library_ms": 0.8, "vs_best_library": 0.4}
    measured = {"library": "cuBLAS 1", "library_ms": 1.0, "vs_library": 0.5, "default_ms": 4.0, "gflops": 500.0}
    at_4096 = record(sizes=sizes(4096), time_ms=2.0, device="Fast", **measured)
    Store("mine/one", tmp_path).add(dataclasses.replace(at_4096, **best))
    Store("mine/two", tmp_path).add(at_4096)
    tables = store_tables.tables([row for row in store_tables.rows("", tmp_path) if row.kernel.startswith("mine/")])
    assert tables["ladder"].splitlines() == [
        "| Fast at 4096 | rate | share of cuBLAS | share of the best of cuBLASLt | gain over the published constants |",
        "|---|---:|---:|---:|---:|",
        "| mine/one | 500 GFLOP/s | 50.0% | 40.0% | 2.00 x |",
        "| mine/two | 500 GFLOP/s | 50.0% |  | 2.00 x |",
        "| mine: cuBLAS 1 | 1,000 GFLOP/s |  |  |  |",
        "| mine: cuBLASLt 1 (best of 32) | 1,250 GFLOP/s |  |  |  |",
    ]
    assert "| 500 GFLOP/s, 50.0% of cuBLAS, 40.0% of cuBLASLt |" in tables["results"]
    assert "| 4 to 2 ms, 2.00 x, 25.0 to 50.0% of cuBLAS, 20.0 to 40.0% of cuBLASLt |" in tables["gains"]


@pytest.mark.slow
def test_the_gallery_has_a_table_of_its_own_and_a_line_in_no_other(tmp_path: Path) -> None:
    sums = record(sizes={"n": 4096}, gflops=None, gbytes=3500.0, time_ms=2.0, default_ms=3.0, config={"items": 4})
    Store("gallery/vector_add", tmp_path).add(sums)
    Store("gallery/axpy", tmp_path).add(dataclasses.replace(sums, gflops=500.0, types={"real": "float16"}))
    Store("gallery/axpy", tmp_path).add(
        dataclasses.replace(sums, sizes={"n": 64}, default_ms=5.0, types={"real": "float16"})
    )
    mine = [row for row in store_tables.rows("", tmp_path) if row.kernel in ("gallery/vector_add", "gallery/axpy")]
    tables = store_tables.tables([row for row in mine if row.record.device == sums.device])
    assert tables.keys() == {"results", "gallery"}
    assert tables["results"] == ""
    assert tables["gallery"].splitlines()[2:] == [
        "| axpy, real=float16 | n=4096 | 500 GFLOP/s, 3,500 GB/s | 3 to 2 ms, 1.50 x | 2.50 x at 64 | items=4 |",
        "| vector_add | n=4096 | 3,500 GB/s | 3 to 2 ms, 1.50 x |  | items=4 |",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "kernel", "evaluated"),
    [("README.md", "twice", 4), ("docs/start.md", "scale", 16), ("docs/steps.md", "total", 4)],
)
def test_the_kernels_that_pages_show_tune(
    page: str, kernel: str, evaluated: int, tmp_path: Path, tune: Callable[..., Done]
) -> None:
    for text in blocks(TEXTS[page], "c", "yaml"):
        (tmp_path / text.split()[1]).write_text(text)
    file = tmp_path / f"{kernel}.yaml"
    done = tune(file, "10000", "--device", "opencl", "--json", "--repeats", "1")
    assert done.status == 0, done.err
    assert (done.json["evaluated"], done.json["failed"]) == (evaluated, {})
    best, counts_bytes = done.json["best"], kernel == "scale"
    assert best["gflops"] is None
    assert best["gbytes"] == (pytest.approx(8 * 10_000 / best["time_ms"] / 1e6) if counts_bytes else None)
    run = tune("run", file, "10000", "--device", "opencl")
    assert (" GB/s" in run.out) == counts_bytes


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_the_kernel_of_several_types_tunes(dtype: str, tmp_path: Path, tune: Callable[..., Done]) -> None:
    for text in blocks(TEXTS["docs/types.md"], "c", "yaml"):
        (tmp_path / text.split()[1]).write_text(text)
    done = tune(tmp_path / "axpy.yaml", "1000", "--type", f"real={dtype}", "--json", "--repeats", "1")
    assert (done.status, done.json["evaluated"], done.json["failed"]) == (0, 4, {}), done.err


def test_the_kernel_that_takes_a_struct_tunes(tmp_path: Path, tune: Callable[..., Done]) -> None:
    for text in blocks(TEXTS["docs/types.md"], "c", "yaml"):
        (tmp_path / text.split()[1]).write_text(text)
    done = tune(tmp_path / "blend.yaml", "1000", "--json", "--repeats", "1")
    assert (done.status, done.json["evaluated"], done.json["failed"]) == (0, 4, {}), done.err


def test_the_page_of_types_has_them_all() -> None:
    table = TEXTS["docs/types.md"].partition("## One kernel")[0]
    assert [name for name in DTYPES if f"`{name}`" not in table] == []
    for dtype in DTYPES.values():
        assert dtype.kind == "integer" or "`, `".join(filter(None, dtype.words)) in table.replace("` | `", "`, `"), (
            dtype.name
        )


BLOCKS = [(page, block) for page, text in TEXTS.items() for block in blocks(text, "python")]
PYTHON = [(page, block) for page, block in BLOCKS if not block.startswith(NEEDS_GPU)]
OF_GPUS = [(page, block) for page, block in BLOCKS if block.startswith(NEEDS_GPU)]
OF_GPUS_IDS = [f"{page}: {block.splitlines()[0].split()[-1]}" for page, block in OF_GPUS]


@pytest.mark.slow
@pytest.mark.parametrize(("page", "block"), PYTHON, ids=[page for page, _ in PYTHON])
def test_the_python_that_pages_show_runs(
    page: str, block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyopencl as cl
    from pyopencl import array

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(frozen, "_seen", {})  # `tuner.freeze` reads all kernels of its process, also of deleted tests
    for text in blocks(TEXTS[page], "c", "yaml") if page == "README.md" else ():
        (tmp_path / text.split()[1]).write_text(text)
    context = tuner.load("sgemm/07_tiled_1xn", 64, device="opencl").device.context
    queue = cl.CommandQueue(context)
    values = np.random.default_rng(1).standard_normal((3, 1, 64, 64)).astype(np.float32)
    C, A, B = (array.to_device(queue, matrix) for matrix in values)
    names = {"C": C, "A": A, "B": B, "a": values[0, 0], "b": values[1, 0], "stream": queue}
    names |= {name: array.to_device(queue, row) for name, row in zip("xy", values[0, 0], strict=False)}
    names |= {"measure": lambda threads, items: threads / items}
    small = re.sub(r", (4096|1000000)\)", ', 64, device="opencl")', block)
    small = small.replace('("sgemm")', '("sgemm/07_tiled_1xn")')
    exec(compile(small, page, "exec"), names)
    queue.finish()


def test_the_page_of_what_is_public_names_what_there_is() -> None:
    text = TEXTS["docs/upgrading.md"].partition("\n## Stability and compatibility\n")[2]
    named = {span.removeprefix("tuner.") for span in code_spans(text) if re.fullmatch(r"tuner\.\w+", span)}
    others = {"door", "search", "torch", "spaces", "toml"}  # packages, an entry point, a file
    errors = {name for name in tuner.__all__ if name in vars(tuner.errors)} - {"TunerError"}
    assert named - others == set(tuner.__all__) - errors
    assert all(f"`{name}`" in text for name in tuner.door.__all__)
    variables = set(re.findall(r"`(TUNER_[A-Z]+)`", text))
    code = "".join(path.read_text() for path in (ROOT / "tuner").rglob("*.py"))
    assert variables <= set(re.findall(r'"(TUNER_[A-Z]+)"', code))


@pytest.mark.parametrize(("page", "block"), OF_GPUS, ids=OF_GPUS_IDS)
def test_the_python_of_gpus_calls_what_there_is_with_arguments_that_it_takes(page: str, block: str) -> None:
    checked = []
    for call in ast.walk(ast.parse(block, page)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            keywords = {str(each.arg): each.value for each in call.keywords}
            if isinstance(call.func.value, ast.Name) and call.func.value.id == "tuner":
                inspect.signature(getattr(tuner, call.func.attr)).bind(*call.args, **keywords)
                checked.append(call.func.attr)
            elif call.func.attr == "bind":
                inspect.signature(tuner.Kernel.bind).bind(None, *call.args, **keywords)
    assert checked


@pytest.mark.gpu
@pytest.mark.parametrize(("page", "block"), OF_GPUS, ids=OF_GPUS_IDS)
def test_the_python_of_gpus_runs(page: str, block: str) -> None:
    """In a process of its own: each of the packages makes its own CUDA context."""
    _, _, package = block.splitlines()[0].partition(" and ")  # "# needs a GPU", or "# needs a GPU and torch"
    if package:
        pytest.importorskip(package.lower(), reason=f"{package} is not installed: {page} is not run")
    done = subprocess.run(
        [sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
