"""Time from an installed package to the first correct `tuner.matmul`.

    python benchmarks/first_matmul.py --processes 3

Each time is of a new interpreter, which runs the package as a wheel installs it, with an empty cache: without builds
and models. The inputs are on the GPU before the time begins. It begins with the import of tuner, and ends when the
result of a product in BF16 is there, which is then compared with a product in double precision. The second figure is
the time of the whole process, with the imports of torch and of what torch needs for the comparison. The last figures
are those of a process that calls `torch.mm` instead, in turns with the others.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from first_dispatch import installed, ran

PROGRAM = """
import json, sys, time
import torch
m, n, k = json.loads(sys.argv[1])
a, b = (torch.rand(shape, device="cuda").sub_(0.5).bfloat16() for shape in ((m, k), (k, n)))
torch.cuda.synchronize()
start = time.perf_counter()
import tuner
c = tuner.matmul(a, b)
torch.cuda.synchronize()
took = time.perf_counter() - start
right = a.double() @ b.double()
is_right = bool(((c.double() - right).abs() <= 2.0**-8 * right.abs() + 2.0**-20 * k).all())
print(json.dumps([{"took": [took], "right": [is_right]}, str(tuner.matmul.explain(a, b))]))
"""
BY_TORCH = PROGRAM.replace("import tuner\n", "").replace("tuner.matmul(", "torch.mm(")
BY_TORCH = BY_TORCH.replace("str(tuner.matmul.explain(a, b))", '"torch.mm"')
SIZE = "[777, 5120, 4096]"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = installed(Path(temporary))
        took, wall = ([list[float](), list[float]()] for _ in range(2))
        told = ["", ""]
        for number in range(options.processes + 1):
            for way, program in enumerate((PROGRAM, BY_TORCH)):
                began = time.perf_counter()
                times, told[way] = ran(program, [SIZE], place, Path(temporary) / f"empty-{number}")
                if not times["right"][0]:
                    raise SystemExit(f"wrong: {told[way]}")
                if number:  # the first process fills the page cache
                    took[way].append(times["took"][0])
                    wall[way].append(time.perf_counter() - began)
    for way, first in enumerate(told):
        print(first)
        for name, found in (("the first product", took[way]), ("the whole process", wall[way])):
            print(f"{name}, s: median {median(found):.2f}, least {min(found):.2f}, most {max(found):.2f}")


if __name__ == "__main__":
    main()
