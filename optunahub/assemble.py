"""Assembles the sampler as a package of OptunaHub: `python optunahub/assemble.py FOLDER`, in FOLDER/samplers/pool_gp.

The package has copies of the modules of `tuner/search` that the sampler consists of, so that it needs no `tuner`. Copy
what is written to `package/` of a checkout of optuna/optunahub-registry, or load it with
`optunahub.load_local_module("samplers/pool_gp", registry_root=FOLDER)`.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = (
    "search/covariance", "search/pool", "search/pool_gp", "search/posterior", "search/proposer", "search/sampler",
    "space/config",
)  # fmt: skip


def assemble(folder: Path) -> Path:
    """Write the package, and return its folder."""
    package = folder / "samplers/pool_gp"
    shutil.copytree(HERE / "pool_gp", package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE.parent / "LICENSE", package / "LICENSE")
    for module in MODULES:
        name = module.rpartition("/")[2]
        text = (HERE.parent / f"tuner/{module}.py").read_text(encoding="utf-8")
        text = re.sub(r"from tuner\.(?:search|space)\.(\w+) import", r"from .\1 import", text)
        text = text.replace("tuner.search.pool_gp", "pool_gp")
        left = re.findall(r"^.*(?:from|import) tuner.*$", text, re.MULTILINE)
        assert not left, f"{name}.py needs more of tuner: {left}"
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return package


if __name__ == "__main__":
    print(f"wrote {assemble(Path(sys.argv[1]))}")
