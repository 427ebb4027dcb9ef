"""Space files whose steps repeat: each fault is one message, and what is valid is read and stored as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.loops import BFS, BFS_SPACE, BITONIC, BITONIC_SPACE, HOTSPOT, HOTSPOT_SPACE, SPACES, written_loop
from helpers.processes import Tune
from helpers.steps import written
from tuner.catalog import catalog
from tuner.space import launch_form
from tuner.space.sources.rendering import Version

REPEAT = "repeat: {k: {powers_of_two: [2, n]}, j: {halving: [k // 2, 1]}}"
STEP = '{kernel: exchange, grid: ["ceil_div(n, threads)"], block: [threads]}'
FLAG = "{name: going, dtype: int8, shape: [1], role: scratch}"
# name of the fault: (the file, a place in it, what becomes of it, what the message says after the file's name and `:`)
FAULTS = {
    "a keyword": (
        BITONIC_SPACE,
        REPEAT,
        "repeat: {pass: [1]}",
        "13: steps.0.repeat: `pass` is a keyword of expressions",
    ),
    "no passes": (
        BITONIC_SPACE,
        REPEAT,
        "repeat: {}",
        "13: steps.0.repeat: an empty mapping; write a number of passes",
    ),
    "another series": (
        BITONIC_SPACE,
        "{halving: [k // 2, 1]}",
        "{doubling: [1, k]}",
        "13: steps.0.repeat: j: {'doubling': [1, 'k']} is no series",
    ),
    "a taken name": (
        BITONIC_SPACE,
        REPEAT,
        "repeat: {n: 3, k: [1], j: [1]}",
        "13: steps.0.repeat: n: 3 is no series of values",
    ),
    "a size's name": (
        BITONIC_SPACE,
        "{k: {powers_of_two: [2, n]},",
        "{n: [1], k: [1],",
        "13: steps.0.repeat.n: this name is taken",
    ),
    "an inner variable in an outer loop": (
        BITONIC_SPACE,
        "[2, n]",
        "[2, j]",
        "13: steps.0.repeat.k: `j`: j is a loop variable, which only `grid:`",
    ),
    "a variable in a block": (
        BITONIC_SPACE,
        "block: [threads]",
        "block: [k]",
        "15: steps.0.steps.0.block.0: `k`: k is a loop variable, which only",
    ),
    "an unknown name in a condition": (
        BITONIC_SPACE,
        "block: [threads]",
        "block: [threads], when: m > 1",
        "15: steps.0.steps.0.when: `m > 1`: unknown name 'm'",
    ),
    "a kernel in a loop": (
        BITONIC_SPACE,
        f"    steps:\n      - {STEP}",
        "    kernel: exchange\n    steps:\n      - " + STEP,
        "14: steps.0.kernel: not allowed in a loop; write it in the loop's `steps:`",
    ),
    "a loop without steps": (
        BITONIC_SPACE,
        f"\n    steps:\n      - {STEP}",
        "",
        "13: steps.0.steps: this key is missing; write what each pass",
    ),
    "a step without a kernel": (
        BITONIC_SPACE,
        "kernel: exchange, ",
        "",
        "15: steps.0.steps.0.kernel: this key is missing; add it, or `repeat:`",
    ),
    "a scalar outside its loop": (
        BITONIC_SPACE,
        "parameters:",
        f"  - {STEP}\nparameters:",
        "16: steps.1: takes k, whose value `k` reads the loop variable k",
    ),
    "most of a repeat": (
        BITONIC_SPACE,
        REPEAT,
        REPEAT + "\n    most: 3",
        "14: steps.0.most: only for `while:`; `repeat:`",
    ),
    "both kinds of loops": (
        BFS_SPACE,
        "while: going",
        "repeat: 3\n    while: going",
        "17: steps.1.while: both `repeat` and `while`; keep one",
    ),
    "a while without an end": (
        BFS_SPACE,
        "    most: 64\n",
        "",
        "16: steps.1.most: this key is missing; write the most passes",
    ),
    "a while in a loop": (
        BFS_SPACE,
        "  - while: going\n    most: 64\n",
        "  - repeat: 2\n    steps: [{while: going, most: 2, steps: [{kernel: begin, "
        "grid: [1]}]}]\n  - while: going\n    most: 64\n",
        "17: steps.1.steps.0.while: a `while` cannot be in another loop",
    ),
    "a flag of the caller": (
        BFS_SPACE,
        FLAG,
        FLAG.replace("scratch", "inout"),
        "16: steps.1.while: going: the flag is {name: going",
    ),
    "a flag of no whole number": (
        BFS_SPACE,
        FLAG,
        FLAG.replace("int8", "float32"),
        "16: steps.1.while: going: the flag is {name: going",
    ),
    "a flag that nobody has": (
        BFS_SPACE,
        "while: going",
        "while: gone",
        "16: steps.1.while: unknown name 'gone'; did you mean",
    ),
    "a swap of one": (
        HOTSPOT_SPACE,
        "[t, other]",
        "[t]",
        "16: steps.0.swap: 't': write two arrays, as in [a, b], or a list",
    ),
    "a swap of a scalar": (
        HOTSPOT_SPACE,
        "[t, other]",
        "[t, n]",
        "16: steps.0.swap: n: only plain arrays can be exchanged",
    ),
    "a swap of two that the caller passes": (
        HOTSPOT_SPACE,
        "role: scratch",
        "role: inout",
        "16: steps.0.swap: t and other: the caller passes both",
    ),
    "a swap of an input": (
        HOTSPOT_SPACE,
        "role: scratch",
        "role: in",
        "16: steps.0.swap: other: is of role in, and a loop writes to both",
    ),
    "a swap of two sizes": (
        HOTSPOT_SPACE,
        "shape: [n], role: scratch",
        "shape: [2 * n], role: scratch",
        "16: steps.0.swap: t is float32 [n], other is float32 [2 * n]; two arrays of",
    ),
    "swaps of three": (
        HOTSPOT_SPACE,
        "[t, other]",
        "[[t, other], [t, third]]",
        "16: steps.0.swap: unknown name 'third'",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_loop_is_one_message(fault: str, tmp_path: Path, tune: Tune) -> None:
    space, text, becomes, message = FAULTS[fault]
    assert space.count(text) == 1
    name, code = next((name, code) for name, (code, file, _) in SPACES.items() if file == space)
    written_loop(tmp_path, name)
    done = tune("validate", written(tmp_path, name, code, space.replace(text, becomes)))
    assert (done.status, done.out) == (2, "")
    assert message in done.err, done.err
    assert len(done.err.strip().splitlines()) == 1


# What has no value at a size: (the file, a place in it, what becomes of it, the size, what the message says)
UNVALUED = {
    "no block": (
        BITONIC_SPACE,
        BITONIC,
        "ceil_div(n, threads)",
        "n // (32 * j)",
        "16",
        "exchange: grid.0: `n // (32 * j)` is 0",
    ),
    "where it is": (
        BITONIC_SPACE,
        BITONIC,
        "ceil_div(n, threads)",
        "n // (32 * j)",
        "16",
        "at j=1, k=2, at threads=32, n=16",
    ),
    "an odd first power": (BITONIC_SPACE, BITONIC, "[2, n]", "[n, 64]", "12", "`n` is 12; a power of two is needed"),
    "no launch": (BITONIC_SPACE, BITONIC, "[2, n]", "[64, n]", "16", "`steps`: no step is launched; at least one"),
    "too many": (
        HOTSPOT_SPACE,
        HOTSPOT,
        "to: time - 1",
        "to: 100 * time",
        "8x2000",
        "`steps`: more than 100,000 launches",
    ),
    "a step of 0": (
        HOTSPOT_SPACE,
        HOTSPOT,
        "step: height",
        "step: height - 1",
        "8x20",
        "`height - 1` is 0; a step is above",
    ),
    "a warning": (
        BFS_SPACE,
        BFS.replace("i += THREADS) {\n        if (frontier", "i += n) {\n        if (frontier"),  # without a stride
        "",
        "",
        "100",
        "steps.1.steps.0.grid: 128 threads in x at threads=64",
    ),
}


@pytest.mark.parametrize("fault", UNVALUED)
def test_a_loop_that_cannot_be_unrolled_is_named_with_its_place(fault: str, tmp_path: Path, tune: Tune) -> None:
    space, code, text, becomes, size, message = UNVALUED[fault]
    name = next(name for name, (_, file, _) in SPACES.items() if file == space)
    written_loop(tmp_path, name)
    done = tune("validate", written(tmp_path, name, code, space.replace(text, becomes) if text else space), size)
    assert message in done.err
    assert done.status == (0 if fault == "a warning" else 2)


@pytest.mark.parametrize("name", SPACES)
def test_a_space_with_loops_is_stored_for_launches_as_it_is(name: str, tmp_path: Path) -> None:
    space = catalog.load(str(written_loop(tmp_path, name)))
    assert launch_form.from_json(json.loads(json.dumps(launch_form.to_json(space)))) == space


def test_another_loop_is_another_version_of_the_kernel(tmp_path: Path) -> None:
    versions = [Version.of(catalog.load(str(written_loop(tmp_path, "bitonic"))))]
    for text, becomes in (("[k // 2, 1]", "[k // 2, 2]"), ("block: [threads]", "block: [threads], when: k > j")):
        versions.append(Version.of(catalog.load(str(written_loop(tmp_path, "bitonic", text, becomes)))))
    assert len({version.code for version in versions}) == len({version.signature for version in versions}) == 3
