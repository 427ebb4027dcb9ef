"""Time to list the valid configurations of a space of a million raw combinations.

python benchmarks/enumeration.py
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tuner import paths
from tuner.search.enumeration import enumerated
from tuner.space.file import reader
from tuner.space.scope import Limits, Scope

VALUES = list(range(1, 11))
SPACES = {
    "plain comparisons": ["a * b <= 50", "c % d == 0", "e + f > 8", "a >= c", "(d * e) % 2 == 0"],
    "conditionals and functions": [
        "a * b <= 50 if c > 3 else a < 5", "ceil_div(c, d) == 1", "max(e, f) > 8", "not a < c", "(d * e) % 2 == 0",
    ],
    "five that exclude little": ["a * b < 100", "c + d < 20", "e * f < 100", "a + b + c > 3", "d + e + f > 3"],
    "sizes in every one": ["M % a == 0", "M % (b * c) < 8", "a * b <= N // 8", "d <= K // 2", "e * f <= M"],
}  # fmt: skip


def main() -> None:
    """Time each space, from YAML text to the list."""
    for name, restrictions in SPACES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "space.yaml")
            lines = [
                "title: a million",
                f"operation: {paths.shipped('spaces')}/sgemm/operation.yaml",
                "kernel: sgemm_naive",
                f"source: {paths.shipped('kernels')}/sgemm/03_naive.cu",
                "languages: [cuda]",
                "parameters:",
                *(f"  {letter}: {VALUES}" for letter in "abcdef"),
                "restrictions:",
                *(f"  - {restriction}" for restriction in restrictions),
            ]
            path.write_text("\n".join(lines))
            start = time.perf_counter()
            space = reader.read(path)
            scope = Scope({"M": 1024, "N": 1024, "K": 1024, "batch": 1}, space.operation.options, "cuda", Limits())
            size = enumerated(space, scope).valid
            print(f"{name}: {size} of {len(VALUES) ** 6} in {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
