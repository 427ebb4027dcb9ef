"""Write the sampler as an OptunaHub package to FOLDER/samplers/pool_gp: `python optunahub/assemble.py FOLDER`.

The package contains copies of the modules that the sampler consists of, so it does not need `tuner`. To publish it,
copy it to `package/` of a checkout of optuna/optunahub-registry; to try it, load it with
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
LOADING = """\
        import optunahub

        PoolGPSampler = optunahub.load_module("samplers/pool_gp").PoolGPSampler
"""  # replaces the import in the docstring's example


def assemble(folder: Path) -> Path:
    """Write the package into `folder`, and return the package's folder."""
    package = folder / "samplers/pool_gp"
    shutil.copytree(HERE / "pool_gp", package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(HERE.parent / "LICENSE", package / "LICENSE")
    for module in MODULES:
        name = module.rpartition("/")[2]
        text = (HERE.parent / f"tuner/{module}.py").read_text(encoding="utf-8")
        text = re.sub(r"from tuner\.(?:search|space)\.(\w+) import", r"from .\1 import", text)
        text = text.replace("tuner.search.pool_gp", "pool_gp")
        text = text.replace("from tuner.classes import dataclass", "from dataclasses import dataclass")
        text = text.replace("\n        from tuner.search import PoolGPSampler\n", LOADING)
        left = re.findall(r"^.*(?:from|import) tuner.*$", text, re.MULTILINE)
        assert not left, f"{name}.py needs more of tuner: {left}"
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    return package


if __name__ == "__main__":
    print(f"wrote {assemble(Path(sys.argv[1]))}")
