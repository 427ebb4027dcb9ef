"""Spaces whose steps are launched in loops: a bitonic sort, a stencil in time, a search of a graph, a wavefront."""

from __future__ import annotations

from pathlib import Path

from helpers.steps import written

# An element of the first of two blocks of j elements is compared with that in the second. With j = 0, it does not end.
BITONIC = """\
KERNEL void exchange(GLOBAL int *x, int n, int k, int j) {
    for (int i = THREAD; i < n; i += THREADS) {
        int first = 0, other = i + j;
        while (first + 2 * j <= i) first += 2 * j;
        if (i - first < j && (x[i] > x[other]) == ((i & k) == 0)) {
            int kept = x[i];
            x[i] = x[other];
            x[other] = kept;
        }
    }
}
"""
BITONIC_SPACE = """\
title: Bitonic sort
operation:
  sizes: {n: }
  arguments:
    - {name: x, dtype: int32, shape: [n], role: inout, fill: {integers: [-1000, 1000]}}
    - {name: n, dtype: int32}
    - {name: k, dtype: int32}
    - {name: j, dtype: int32}
  reference: sort(x)
source: bitonic.cu
languages: [cuda, opencl, c]
steps:
  - repeat: {k: {powers_of_two: [2, n]}, j: {halving: [k // 2, 1]}}
    steps:
      - {kernel: exchange, grid: ["ceil_div(n, threads)"], block: [threads]}
parameters: {threads: [32, 64]}
"""

# The same with both loop variables in a struct.
STRUCTURED = """\
typedef struct { int pad; int k; int j; double unused; double rest; } stage;
KERNEL void exchange(GLOBAL int *x, int n, stage s) {
    for (int i = THREAD; i < n; i += THREADS) {
        int other = i ^ s.j;
        if (other > i && (x[i] > x[other]) == ((i & s.k) == 0)) {
            int kept = x[i];
            x[i] = x[other];
            x[other] = kept;
        }
    }
}
"""
FIELDS = """\
    - name: s
      fields:
        - {name: pad, dtype: int32, value: 0}
        - {name: k, dtype: int32, value: k}
        - {name: j, dtype: int32, value: j}
        - {name: unused, dtype: float64, value: 0}
        - {name: rest, dtype: float64, value: k / j}
"""
STRUCT = BITONIC_SPACE.replace("    - {name: k, dtype: int32}\n    - {name: j, dtype: int32}\n", FIELDS)

# Each pass computes `height` time steps of a row of cells: those of a block, and a halo that shrinks by a cell a step.
HOTSPOT = """\
KERNEL void advance(GLOBAL float *after, GLOBAL const float *before, int n, int steps) {
    for (int first = (THREAD / 32) * 32; first < n; first += THREADS) {
        float cells[32 + 2 * height], next[32 + 2 * height];
        if (THREAD % 32 == 0) {
            for (int c = 0; c < 32 + 2 * height; c++) {
                int i = first - height + c;
                cells[c] = before[i < 0 ? 0 : i < n ? i : n - 1];
            }
            for (int step = 0; step < steps; step++) {
                for (int c = 0; c < 32 + 2 * height; c++) {
                    int i = first - height + c;
                    float left = c > 0 && i > 0 ? cells[c - 1] : cells[c];
                    float right = c + 1 < 32 + 2 * height && i < n - 1 ? cells[c + 1] : cells[c];
                    next[c] = 0.5f * cells[c] + 0.25f * (left + right);
                }
                for (int c = 0; c < 32 + 2 * height; c++) cells[c] = next[c];
            }
            for (int c = 0; c < 32 && first + c < n; c++) after[first + c] = cells[height + c];
        }
    }
}
"""
HOTSPOT_SPACE = """\
title: Temperatures of a row of cells after some time steps
operation:
  sizes: {n: 100, time: 7}
  arguments:
    - {name: t, dtype: float32, shape: [n], role: inout}
    - {name: other, dtype: float32, shape: [n], role: scratch}
    - {name: n, dtype: int32}
    - {name: steps, dtype: int32, value: "min(height, time - done)"}
  reference: {python: "hotspot.py:after"}
source: hotspot.cu
languages: [cuda, opencl, c]
steps:
  - repeat: {done: {from: 0, to: time - 1, step: height}}
    steps:
      - {kernel: advance, arguments: [other, t, n, steps], grid: ["ceil_div(n, 64)"], block: [64]}
    swap: [t, other]
parameters: {height: [1, 2, 3]}
"""
HOTSPOT_REFERENCE = """\
import numpy as np

def after(t, n, time, **_):
    for _ in range(time):
        padded = np.pad(t, 1, mode="edge")
        t = 0.5 * t + 0.25 * (padded[:-2] + padded[2:])
    return {"t": t}
"""

# The neighbours of node i are i * 2 % n and i * 3 % n: `cost` is the number of edges from node 1, and -1 if there is no
# path.
BFS = """\
KERNEL void begin(GLOBAL int *cost, GLOBAL int *frontier, int n) {
    for (int i = THREAD; i < n; i += THREADS) {
        cost[i] = i == 1 ? 0 : -1;
        frontier[i] = i == 1;
    }
}
KERNEL void visit(GLOBAL int *cost, GLOBAL int *frontier, GLOBAL int *found, GLOBAL const int *edges, int n) {
    for (int i = THREAD; i < n; i += THREADS) {
        if (frontier[i]) {
            frontier[i] = 0;
            for (int e = 0; e < 2; e++) {
                int to = edges[2 * i + e];
                if (cost[to] < 0) found[to] = cost[i] + 1;
            }
        }
    }
}
KERNEL void settle(GLOBAL int *cost, GLOBAL int *frontier, GLOBAL int *found, GLOBAL char *going, int n) {
    for (int i = THREAD; i < n; i += THREADS) {
        if (found[i] > 0 && cost[i] < 0) {
            cost[i] = found[i];
            frontier[i] = 1;
            going[0] = 1;
        }
    }
}
"""
BFS_SPACE = """\
title: Breadth-first search, until no node is new
operation:
  sizes: {n: }
  arguments:
    - {name: cost, dtype: int32, shape: [n], role: out}
    - {name: edges, dtype: int32, shape: [2 * n], role: in, fill: {integers: [0, n - 1]}}
    - {name: frontier, dtype: int32, shape: [n], role: scratch}
    - {name: found, dtype: int32, shape: [n], role: scratch, zeroed: each}
    - {name: going, dtype: int8, shape: [1], role: scratch}
    - {name: n, dtype: int32}
  reference: {python: "bfs.py:costs"}
source: bfs.cu
languages: [cuda, opencl, c]
steps:
  - {kernel: begin, arguments: [cost, frontier, n], grid: [2], block: [threads]}
  - while: going
    most: 64
    steps:
      - {kernel: visit, arguments: [cost, frontier, found, edges, n], grid: [2], block: [threads]}
      - {kernel: settle, arguments: [cost, frontier, found, going, n], grid: [2], block: [threads]}
parameters: {threads: [32, 64]}
"""
BFS_REFERENCE = """\
import numpy as np

def costs(edges, n, **_):
    cost, frontier, level = np.full(n, -1, np.int32), {1}, 0
    while frontier:
        for node in frontier:
            cost[node] = level
        frontier = {int(to) for node in frontier for to in edges[2 * node : 2 * node + 2] if cost[to] < 0}
        level += 1
    return {"cost": cost}
"""

# Thread i computes the element of an anti-diagonal in row `top + i`: the best path to it from the left or from above.
WAVEFRONT = """\
KERNEL void diagonal(GLOBAL int *best, GLOBAL const int *gain, int n, int d, int top, int count) {
    int i = THREAD;
    if (i < count) {
        int row = top + i, column = d - row, above = 0, left = 0;
        if (row > 0) above = best[(row - 1) * n + column];
        if (column > 0) left = best[row * n + column - 1];
        best[row * n + column] = gain[row * n + column] + (above > left ? above : left);
    }
}
"""
WAVEFRONT_SPACE = """\
title: Best paths through a matrix, by anti-diagonals
operation:
  sizes: {n: }
  arguments:
    - {name: best, dtype: int32, shape: [n, n], role: out}
    - {name: gain, dtype: int32, shape: [n, n], role: in, fill: {integers: [0, 9]}}
    - {name: n, dtype: int32}
    - {name: d, dtype: int32}
    - {name: top, dtype: int32, value: "max(0, d - n + 1)"}
    - {name: count, dtype: int32, value: "min(d, n - 1) - max(0, d - n + 1) + 1"}
  reference: {python: "wavefront.py:best"}
source: wavefront.cu
languages: [cuda, opencl]
steps:
  - repeat: {d: {from: 0, to: 2 * n - 2}}
    steps:
      - kernel: diagonal
        grid: ["ceil_div(min(d, n - 1) - max(0, d - n + 1) + 1, threads)"]
        block: [threads]
parameters: {threads: [8, 16]}
"""
WAVEFRONT_REFERENCE = """\
import numpy as np

def best(gain, n, **_):
    paths = np.zeros((n + 1, n + 1), np.int32)
    for row in range(n):
        for column in range(n):
            paths[row + 1, column + 1] = gain[row, column] + max(paths[row, column + 1], paths[row + 1, column])
    return {"best": paths[1:, 1:]}
"""

SPACES = {
    "bitonic": (BITONIC, BITONIC_SPACE, ""),
    "hotspot": (HOTSPOT, HOTSPOT_SPACE, HOTSPOT_REFERENCE),
    "bfs": (BFS, BFS_SPACE, BFS_REFERENCE),
    "wavefront": (WAVEFRONT, WAVEFRONT_SPACE, WAVEFRONT_REFERENCE),
}


def written_loop(folder: Path, name: str, text: str = "", becomes: str = "") -> Path:
    """Writes one of the spaces, with one place of its source or of its file changed."""
    code, space, reference = SPACES[name]
    assert not text or (code + space).count(text) == 1, text
    if reference:
        (folder / f"{name}.py").write_text(reference)
    changed = (each.replace(text, becomes) if text else each for each in (code, space))
    return written(folder, name, *changed)
