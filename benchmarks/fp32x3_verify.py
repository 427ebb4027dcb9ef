"""Tune sgemm3x on matrices whose product takes every route, so that each configuration is verified on each route.

    python benchmarks/fp32x3_verify.py 1024 515,333,1001

For each size, all configurations are built and verified as in any tuning, but on the matrices of
`spaces/sgemm3x/rows.py` in place of random ones. It prints how many were measured and how many failed, and ends with 1
if any did. Nothing is stored: these times are not those of usual data.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import tuner

ROOT = Path(__file__).parents[1]
FILE = "wgmma_halves.yaml"


def space(folder: Path) -> Path:
    """Write the space file with other contents of A and B into `folder`."""
    for name in ("operation.yaml", FILE):
        text = (ROOT / "spaces" / "sgemm3x" / name).read_text()
        text = text.replace("role: in}", 'role: in, fill: {python: "rows.py:mixed"}}')
        if name == FILE:
            kernels = ROOT / "kernels"
            text += f"source: {kernels / 'sgemm3x' / 'wgmma_halves.cu'}\ninclude: [{kernels}]\n"
        (folder / name).write_text(text)
    shutil.copy(ROOT / "spaces" / "sgemm3x" / "rows.py", folder)
    return folder / FILE


def main() -> None:
    """Tune at each size."""
    with tempfile.TemporaryDirectory() as folder:
        file, failures = space(Path(folder)), 0
        for text in sys.argv[1:]:
            numbers = [int(number) for number in text.split(",")]
            m, n, k = numbers if len(numbers) == 3 else numbers * 3
            tuned = tuner.tune(file, {"M": m, "N": n, "K": k}, full=True, results=Path(folder) / "results")
            failures += len(tuned.failures)
            print(tuned, *tuned.failures, sep="\n", flush=True)
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
