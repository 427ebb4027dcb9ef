"""Time from an installed package to the first correct `tuner.matmul`.

    python benchmarks/first_matmul.py --processes 3

Each time is of a new interpreter, which runs the package as a wheel installs it, with an empty cache: without builds
and models. The inputs are on the GPU before the time begins. It begins with the import of tuner, and ends when the
result of a product in BF16 is there, which is then compared with a product in double precision. The second figure is
the time of the whole process, with the imports of torch and of what torch needs for the comparison.
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
SIZE = "[777, 5120, 4096]"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = installed(Path(temporary))
        took, wall, first = list[float](), list[float](), ""
        for number in range(options.processes + 1):
            began = time.perf_counter()
            times, first = ran(PROGRAM, [SIZE], place, Path(temporary) / f"empty-{number}")
            if not times["right"][0]:
                raise SystemExit(f"wrong: {first}")
            if number:  # the first process fills the page cache
                took.append(times["took"][0])
                wall.append(time.perf_counter() - began)
    print(f"first matmul, s: median {median(took):.2f}, least {min(took):.2f}, most {max(took):.2f}")
    print(f"the whole process, s: median {median(wall):.2f}, least {min(wall):.2f}, most {max(wall):.2f}")
    print(first)


if __name__ == "__main__":
    main()
