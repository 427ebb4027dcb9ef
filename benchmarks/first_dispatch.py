"""Time of the first dispatch of a process, with an empty cache and later, and of the choice at a new size.

    python benchmarks/first_dispatch.py sgemm hgemm
    python benchmarks/first_dispatch.py sgemm --described "NVIDIA H200"

Each time is of a new interpreter, which runs the package as a wheel installs it: with launch forms and compiled
modules. On a GPU, torch is imported, and has used the device, before the time begins; the time ends when the first
result is there. Without a GPU (`--described`), NumPy is imported before, and the time ends with the first choice. Times
are in ms. An empty cache has no builds, so the library serves the first call. The first process is not measured: it
fills the cache of those that are called later.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
ON_GPU = """
import json, sys, time
import torch
family, types, sizes = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
kinds = [getattr(torch, types[name]) for name in "CAB"]
def arrays(m, n, k):
    shapes = (1, m, n), (1, m, k), (1, k, n) if not family.endswith("_nt") else (1, n, k)
    return [torch.rand(shape, device="cuda").to(kind) for shape, kind in zip(shapes, kinds)]
sets = [arrays(*size) for size in sizes]
torch.cuda.synchronize()
times = {}
start = begin = time.perf_counter()
def took(name):
    global start
    torch.cuda.synchronize()
    now = time.perf_counter()
    times.setdefault(name, []).append((now - start) * 1e3)
    start = time.perf_counter()
import tuner
gemm = tuner.dispatch(family)
took("import tuner, dispatch(...)")
gemm(*sets[0])
took("first call")
times["first dispatch, in all"] = [(time.perf_counter() - begin) * 1e3]
first = str(gemm.explain(*sets[0]))
start = time.perf_counter()
for each in sets[1:]:
    gemm(*each)
    took("call at a new size")
for _ in range(100):
    gemm(*sets[0])
took("100 later calls")
matrices = [x[0] for x in sets[0]]
product = lambda: tuner.matmul(matrices[1], matrices[2], matrices[0], transpose_b=family.endswith("_nt"))
product()
took("first matmul")
print(json.dumps([times, first]))
"""
FILL = """
from tuner.families import beside
deadline = time.monotonic() + 120
while any(not work.is_done for work in beside._queue._by_request.values()) and time.monotonic() < deadline:
    time.sleep(0.05)
"""
DESCRIBED = """
import json, sys, time
import numpy
family, name, sizes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
sys.path.insert(0, sys.argv[4])
times = {}
start = begin = time.perf_counter()
used = time.process_time()
def took(name):
    global start
    now = time.perf_counter()
    times.setdefault(name, []).append((now - start) * 1e3)
    start = time.perf_counter()
import tuner
gemm = tuner.dispatch(family)
took("import tuner, dispatch(...)")
from choice import described
device = described(name, 132, 50 << 20)
from tuner.families.choice import FamilyTable
op = gemm.family.operation
types = {name: allowed[0] for name, allowed in op.types.items()}
scope = op.scope(dict.fromkeys(op.sizes, 1), dict(op.options), "cuda", device.limits, types)
start = time.perf_counter()
table = FamilyTable(gemm.family.spaces, device, scope, True)
took("read what is known")
choice = next(table.choices(dict(zip("MNK", sizes[0]), batch=1)))
took("first choice")
times["first dispatch, in all"] = [(time.perf_counter() - begin) * 1e3]
times["of that CPU time"] = [(time.process_time() - used) * 1e3]
start = time.perf_counter()
for each in sizes[1:]:
    next(table.choices(dict(zip("MNK", each), batch=1)))
    took("choice at a new size")
print(json.dumps([times, f"{choice.name} ({choice.candidate.match})"]))
"""
TYPES = {"sgemm": ("float32", "float32", "float32"), "hgemm": ("float32", "float16", "float16")}
HALVES = ("bfloat16", "bfloat16", "bfloat16")
SIZES = [(777, 5120, 4096), *((64 * n + 1, 192 * n, 129 * n) for n in range(3, 19, 3))]


def installed(folder: Path) -> Path:
    """The package as a wheel installs it, in a folder for PYTHONPATH."""
    place = folder / "site"
    shutil.copytree(ROOT / "tuner", place / "tuner", ignore=shutil.ignore_patterns("__pycache__"))
    shipped = place / "tuner/_shipped"
    shipped.mkdir()
    for name in ("kernels", "spaces", "results"):
        (shipped / name).symlink_to(ROOT / name)
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(place / "tuner")], check=True)
    program = "from tuner.catalog import catalog, kernel_lists\nfor name in kernel_lists.names(): catalog.load(name)"
    environment = {**os.environ, "PYTHONPATH": joined(place), "TUNER_CACHE": str(folder / "forms")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, cwd=folder)
    (folder / "forms/forms").rename(shipped / "forms")
    return place


def joined(place: Path) -> str:
    """PYTHONPATH with this folder first."""
    return os.pathsep.join(filter(None, (str(place), os.environ.get("PYTHONPATH", ""))))


def ran(program: str, arguments: list[str], place: Path, cache: Path) -> tuple[dict[str, list[float]], str]:
    """The times that an interpreter prints, and what it ran first."""
    environment = {**os.environ, "PYTHONPATH": joined(place), "TUNER_CACHE": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment, cwd=cache.parent)
    times, first = json.loads(done.stdout.splitlines()[-1])
    return times, first


def main() -> None:
    """Measure and print a table for each family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="+", metavar="FAMILY")
    parser.add_argument("--described", metavar="NAME", help="name of an absent NVIDIA GPU, as in records")
    parser.add_argument("--processes", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = installed(Path(temporary))
        for family in options.families:
            if options.described:
                program, about = DESCRIBED, [options.described, json.dumps(SIZES), str(ROOT / "benchmarks")]
            else:
                types = dict(zip("CAB", TYPES.get(family, HALVES), strict=True))
                program, about = ON_GPU, [json.dumps(types), json.dumps(SIZES)]
            found: dict[str, dict[str, list[float]]] = {}
            filled = Path(temporary) / family
            ran(program + FILL, [family, *about], place, filled)  # the page cache is warm, too
            for number in range(options.processes):
                for when, cache in (("empty cache", Path(temporary) / f"{family}-{number}"), ("later", filled)):
                    times, first = ran(program, [family, *about], place, cache)
                    for name, values in times.items():
                        found.setdefault(when, {}).setdefault(name, []).append(median(values))
                    found[when].setdefault(f"runs {first}", [])
                    said = "; ".join(f"{name} {median(values):.4g}" for name, values in times.items())
                    print(f"{family}, {when}, ms: {said}; runs {first}", flush=True)
            print(f"\n{family} on {options.described or 'cuda'}: {options.processes} processes\n")
            print("| what | empty cache, ms: median, least, most | later |\n|---|---|---|")
            for name in found["empty cache"]:
                cells = [
                    f"{median(v):.4g}, {min(v):.4g}, {max(v):.4g}" if (v := found[when].get(name)) else ""
                    for when in ("empty cache", "later")
                ]
                print(f"| {name} | {cells[0]} | {cells[1]} |")


if __name__ == "__main__":
    main()
