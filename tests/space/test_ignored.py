"""What a compiler ignores without an error is named, and so is a grid that a source's clusters forbid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.operations import array, written
from helpers.processes import Tune

Y = array("y", "float32", ["n"], "out")
KERNEL = 'extern "C" __global__ void {} f(float *y, int n) {{ y[0] = a; }}'
LIMITED: dict[str, Any] = {"parameters": {"a": [1], "registers": [32, 64]}, "grid": [1], "block": [64]}
OPTIONS = ["-maxrregcount={registers}"]
CONSUMER = {"requires": {"compute_capability": ">=12.0"}}
LOOP = "void f(float *y, int n) {{\n{}\n    for (int i = 0; i < n; i++) y[i] = 0;\n}}\n"


def of(folder: Path, bounds: str, head: str = "", **more: Any) -> Path:
    return written(folder, head + KERNEL.format(bounds), [Y], "zeros(n)", "cuda", **{**LIMITED, **more})


@pytest.mark.parametrize(
    ("bounds", "head"),
    [
        ("__launch_bounds__(64)", ""),
        ("__launch_bounds__(64, 2)", "#ifndef b\n#define b 1\n#endif\n"),
        ("BOUNDS(64)", "#define BOUNDS(threads) __launch_bounds__(threads)\n"),
    ],
)
def test_a_limit_of_registers_beside_launch_bounds_is_refused(
    bounds: str, head: str, tmp_path: Path, tune: Tune
) -> None:
    file = of(tmp_path, bounds, head, compile_options={"cuda": OPTIONS})
    done = tune("validate", file)
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert (
        "compile_options.cuda.0: -maxrregcount={registers} has no effect on f in f.cu, which has __launch_" in done.err
    )


def test_a_limit_of_0_registers_is_refused(tmp_path: Path, tune: Tune) -> None:
    more: dict[str, Any] = {"parameters": {"a": [1], "registers": [0, 64]}, "compile_options": {"cuda": OPTIONS}}
    done = tune("validate", of(tmp_path, "", **more))
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert 'parameters.registers: 0 in -maxrregcount={registers} is not "no limit": NVRTC' in done.err


@pytest.mark.parametrize(
    ("bounds", "more", "named"),
    [
        ("threads, blocks", {"grid": ["ceil_div(n, threads)"]}, "multiprocessor, which has at most 2048 threads"),
        ("threads * 2, blocks", {}, "3 blocks of 1024 threads"),
        ("threads * 2, blocks", {}, "add the restriction `(threads * 2) * blocks <= 2048`"),
        ("threads, blocks", {"restrictions": ["threads * blocks <= 2048"]}, ""),
        ("threads, blocks", {"restrictions": ["threads * blocks * a <= 2048"]}, ""),
        ("threads, blocks", {"restrictions": ["threads <= 128 * a", "a + 0 * n > 0"]}, ""),
        ("threads, blocks", {"restrictions": ["threads <= 512 * a"]}, "5 blocks of 512 threads"),
        ("threads, blocks", {"derived": {"all": "threads * blocks"}, "restrictions": ["all <= 2048"]}, ""),
        ("1024 / c, blocks", {}, "5 blocks of 512 threads"),
        ("1025 / c, blocks", {}, "add the restriction `(1025 // c) * blocks <= 2048`"),
        ("1024 / (c - 2), blocks", {"restrictions": ["blocks <= 2"]}, ""),
        ("threads", {}, ""),
        ("threads, 1", {}, ""),
        ("threads, 5", {}, "parameters.threads: __launch_bounds__ of f asks for 5 blocks of 512"),
        ("THREADS, blocks", {}, "add the restriction `(threads * 2) * blocks <= 2048`"),
        ("MANY, blocks", {}, ""),
        ("threads, FEWEST", {}, "8 blocks of 512 threads"),
        ("threads, FEWEST", {"compile_options": {"cuda": ["-DFEWEST={blocks}"]}, "restrictions": ["blocks <= 4"]}, ""),
        ("half, blocks", {"derived": {"half": "threads // 2"}, "restrictions": ["blocks <= 4"]}, ""),
        ("twice, blocks", {"derived": {"twice": "threads * 2"}}, "3 blocks of 1024 threads"),
        ("sized, blocks", {"derived": {"sized": "threads + 0 * n"}}, ""),
        ("threads, blocks", {"restrictions": ["threads * blocks <= 2048"], **CONSUMER}, "has at most 1536 threads"),
        ("threads, blocks", {"restrictions": ["threads * blocks <= 1536"], **CONSUMER}, ""),
        ("threads, blocks", {"restrictions": ["blocks <= 4"], "requires": {"compute_capability": ">=8.9"}}, ""),
    ],
)
def test_launch_bounds_of_more_blocks_than_a_multiprocessor_holds_are_named(
    bounds: str, more: dict[str, Any], named: str, tmp_path: Path, tune: Tune
) -> None:
    head = "static_assert(blocks > 0 && c > 0);\n#define THREADS (threads * 2)\n#define MANY c\n#define MANY 64\n"
    head += "#ifndef FEWEST\n#define FEWEST 8\n#endif\n"
    more = {
        "parameters": {"a": [1], "threads": [64, 512], "blocks": [1, 2, 3, 4, 5], "c": [2, 3]},
        "block": ["threads"],
        **more,
    }
    done = tune("validate", of(tmp_path, f"__launch_bounds__({bounds})", head, **more))
    assert (done.status, named in done.err, bool(done.err)) == (2 if named else 0, True, bool(named))


@pytest.mark.parametrize(
    ("macro", "use"),
    [
        ("BOUNDS(t, b) __launch_bounds__(t, b)", "BOUNDS(threads, blocks)"),
        ("BOUNDS(most) __launch_bounds__(most * 2, blocks)", "BOUNDS(threads / 2)"),
        ("BOUNDS __launch_bounds__(threads, blocks)", "BOUNDS"),
    ],
)
def test_launch_bounds_in_a_macro_are_looked_at(macro: str, use: str, tmp_path: Path, tune: Tune) -> None:
    head = (
        f"static_assert(blocks > 0);\n#ifdef __OPENCL_VERSION__\n#define BOUNDS(t, b)\n#else\n#define {macro}\n#endif\n"
    )
    space = {"parameters": {"a": [1], "threads": [64, 512], "blocks": [1, 5]}, "block": ["threads"]}
    done = tune("validate", of(tmp_path, use, head, **space))
    assert (done.status, "asks for 5 blocks of 512 threads per multiprocessor" in done.err) == (2, True)


@pytest.mark.parametrize("bounds", ["", "\n#if a > 1\n__launch_bounds__(64)\n#endif\n", "__maxnreg__(32)"])
def test_a_limit_of_registers_of_a_kernel_without_launch_bounds_is_valid(
    bounds: str, tmp_path: Path, tune: Tune
) -> None:
    head = "__global__ void __launch_bounds__(64) other() {}\n"
    done = tune("validate", of(tmp_path, bounds, head, compile_options={"cuda": OPTIONS}))
    assert (done.status, done.err) == (0, "")


@pytest.mark.parametrize(
    ("pragma", "cure"),
    [
        ("#pragma unroll a", "write UNROLL_BY(a), with #define PRAGMA(text) _Pragma(#text) and #define UNROLL_BY(n)"),
        ("#define FEW a\n# pragma unroll (FEW)", "write UNROLL_BY(a)"),
        ("#pragma ivdep a", "write a pragma that GCC knows"),
    ],
)
def test_a_pragma_that_gcc_ignores_is_named_with_its_macro(pragma: str, cure: str, tmp_path: Path, tune: Tune) -> None:
    done = tune("validate", written(tmp_path, LOOP.format(pragma), [Y], "zeros(n)", parameters={"a": [1, 2]}))
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert " parameters.a: GCC ignores `#pragma " in done.err
    assert cure in done.err


@pytest.mark.parametrize(("head", "tail", "status"), [("", "", 2), ("#if a > 0\n", "\n#endif", 0)])
def test_a_loop_that_nvrtc_would_unroll_0_times_is_named(
    head: str, tail: str, status: int, tmp_path: Path, tune: Tune
) -> None:
    text = 'extern "C" __global__ ' + LOOP.format(f"{head}#pragma unroll (a){tail}")
    file = written(tmp_path, text, [Y], "zeros(n)", "cuda", parameters={"a": [0, 1, 4]}, grid=[1], block=[64])
    done = tune("validate", file)
    assert (done.status, "parameters.a: 0: NVRTC ignores `#pragma unroll 0`" in done.err) == (status, status == 2)


def test_a_macro_in_the_pragma_of_gcc_compiles_or_is_advised(tmp_path: Path, tune: Tune) -> None:
    """GCC 12 puts no macro's value there; another compiler may."""
    file = written(tmp_path, LOOP.format("#pragma GCC unroll a"), [Y], "zeros(n)", parameters={"a": [1, 2]})
    done = tune("validate", file, "--compile")
    advised = "; GCC puts no macro's value there: write UNROLL_BY(a), with #define PRAGMA(text)" in done.err
    assert (done.status, advised) in [(0, False), (2, True)], done.err
    file = written(tmp_path, LOOP.format("#pragma GCC unroll 70000"), [Y], "zeros(n)", parameters={"a": [1, 2]})
    done = tune("validate", file, "--compile")
    assert "macro's value" not in done.err, "there is no macro"


CURE = "#define PRAGMA(text) _Pragma(#text)\n#define UNROLL_BY(n) PRAGMA(GCC unroll n)\n"


@pytest.mark.parametrize(
    "pragma",
    [
        "#pragma omp parallel for schedule(static, a)",
        "#ifdef __clang__\n#pragma unroll a\n#endif\n(void)a;",
        "#pragma unroll\n(void)a;",
        CURE + "UNROLL_BY(a)",
        CURE + "#define UNROLL a\nUNROLL_BY(UNROLL)",
    ],
)
def test_other_pragmas_are_valid_and_compile(pragma: str, tmp_path: Path, tune: Tune) -> None:
    file = written(tmp_path, LOOP.format(pragma), [Y], "zeros(n)", parameters={"a": [1, 2]})
    done = tune("validate", file, "--compile")
    assert (done.status, "GCC ignores" in done.err) == (0, False)


@pytest.mark.parametrize(
    ("dims", "grid", "message"),
    [
        ("2, 1, 1", [1], "grid: a grid of (1, 1, 1) is not whole clusters of __cluster_dims__(2, 1, 1), at "),
        ("a", ["n"], "is not whole clusters of __cluster_dims__(3)"),
        ("1, a, 1", [2, 3, 1], ""),
        ("2, 1, 1", ["n"], ""),
    ],
)
def test_a_grid_that_is_not_whole_clusters_of_the_source_is_not_valid(
    dims: str, grid: list[Any], message: str, tmp_path: Path, tune: Tune
) -> None:
    file = of(
        tmp_path,
        f"__cluster_dims__({dims})",
        grid=grid,
        parameters={"a": [3]},
        requires={"compute_capability": ">=9.0"},
    )
    done = tune("validate", file, "1024")
    assert (done.status, message in done.err) == (2 if message else 0, True), done.err


def test_clusters_of_the_file_that_are_not_those_of_the_source_are_refused(tmp_path: Path, tune: Tune) -> None:
    more: dict[str, Any] = {"grid": [8], "parameters": {"a": [3]}, "requires": {"compute_capability": ">=9.0"}}
    done = tune("validate", of(tmp_path, "__cluster_dims__(4, 1, 1)", cluster=[2], **more), "1024")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "`cluster:` is (2, 1, 1), but the kernel has __cluster_dims__(4, 1, 1); remove one of them" in done.err
    assert tune("validate", of(tmp_path, "__cluster_dims__(4)", cluster=[4], **more), "1024").status == 0


CLUSTERS = {
    "an attribute": ("__attribute__((cluster_dims(2, 1, 1)))", "", [3]),
    "a macro": ("CLUSTER", "#define CLUSTER __cluster_dims__(PAIR)\n#define PAIR 2\n", [3]),
    "a constant": ("__cluster_dims__(pair, 1, 1)", "constexpr int pair = 3 - a;\n", [3]),
    "another axis": ("__cluster_dims__(1, pair)", "constexpr int pair = 2;\n", [2, 5]),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", CLUSTERS)
def test_clusters_that_only_the_compiler_knows_are_compared_with_the_grid(
    what: str, tmp_path: Path, tune: Tune
) -> None:
    bounds, head, grid = CLUSTERS[what]
    done = tune("validate", of(tmp_path, bounds, head, parameters={"a": [1]}, grid=grid), "64", "--compile")
    assert (done.status, "is not whole clusters of (" in done.err) == (2, True), done.err
    whole = [2 * each for each in grid]
    done = tune("validate", of(tmp_path, bounds, head, parameters={"a": [1]}, grid=whole), "64", "--compile")
    assert (done.status, "the default compiles for sm_90" in done.out) == (0, True), done.err


@pytest.mark.slow
def test_clusters_of_the_file_that_are_not_those_of_the_build_are_refused(tmp_path: Path, tune: Tune) -> None:
    more: dict[str, Any] = {"grid": [8], "parameters": {"a": [1]}}
    pair = "constexpr int pair = 2;\n"
    done = tune("validate", of(tmp_path, "__cluster_dims__(pair)", pair, cluster=[4], **more), "64", "--compile")
    assert done.status == 2
    assert "cluster: is (4, 1, 1), not clusters of (2, 1, 1), as f declares; remove one of the two" in done.err
    done = tune("validate", of(tmp_path, "__cluster_dims__(pair)", pair, cluster=[2], **more), "64", "--compile")
    assert done.status == 0, done.err
