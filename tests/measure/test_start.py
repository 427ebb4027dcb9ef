"""What is imported at the start, and how many processes there are: what is used, when it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.processes import Tune
from helpers.short_finals import TUNE

# As costly to import as torch is: who imports it can tell.
TORCH = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()
class Tensor: ...
def double(x):
    return 2 * x
"""
KERNEL = "void twice(float *y, const float *x, int n) { for (int i = 0; i < n; i++) y[i] = 2 * x[i]; }"
SPACE = """\
title: a test's own
operation:
  sizes: {{n: }}
  arguments:
    - {{name: y, dtype: float32, shape: [n], role: out}}
    - {{name: x, dtype: float32, shape: [n], role: in}}
    - {{name: n, dtype: int32}}
  reference: {reference}
kernel: twice
languages: [c]
parameters: {{unused: [1, 2]}}
"""


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is there once the package that is called torch here has been imported."""
    (tmp_path / "packages" / "torch").mkdir(parents=True)
    (tmp_path / "packages" / "torch" / "__init__.py").write_text(TORCH)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"), prepend=":")
    return tmp_path / "packages" / "torch" / "imported"


@pytest.mark.slow
@pytest.mark.parametrize(("reference", "uses"), [("2 * x", False), ("{python: check.py:right}", True)])
def test_torch_is_imported_where_a_reference_uses_it_and_not_for_kernel_tuner(
    reference: str, uses: bool, imported: Path, tune: Tune, tmp_path: Path
) -> None:
    (tmp_path / "twice.c").write_text(KERNEL)
    (tmp_path / "twice.yaml").write_text(SPACE.format(reference=reference))
    (tmp_path / "check.py").write_text("import torch\ndef right(x): return torch.double(x)\n")
    done = tune(tmp_path / "twice.yaml", "1000", "--device", "host", "--budget", "2")
    assert done.status == 0, done.err
    assert imported.exists() == uses


def test_the_ledger_is_imported_while_a_thread_imports_optuna() -> None:
    """As where a script's devices are open already, so that nothing else is left to wait for."""
    code = (
        "import importlib, threading\n"
        "threading.Thread(target=importlib.import_module, args=('optuna',)).start()\n"
        "import tuner.tuning.ledger.ledger"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nothing_slow_is_imported_before_the_worker_is_started() -> None:
    """Optuna, Kernel Tuner and SciPy are imported while it opens the device."""
    names = ["optuna", "kernel_tuner", "scipy", "sklearn", "asyncio"]
    code = f"import sys, tuner.tuning.driver; print(*sys.modules.keys() & {set(names)})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.slow
@pytest.mark.parametrize(("budget", "model"), [("10", False), ("11", True)])
def test_the_model_of_times_is_imported_where_a_search_may_ask_it(budget: str, model: bool, tmp_path: Path) -> None:
    """Its first ten configurations fill the space, and there are enough others."""
    (tmp_path / "twice.c").write_text(KERNEL)
    (tmp_path / "twice.yaml").write_text(SPACE.format(reference="2 * x").replace("[1, 2]", str([*range(1, 13)])))
    words = [*TUNE, str(tmp_path / "twice.yaml"), "1000", "--device", "host", "--budget", budget]
    done = subprocess.run([sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time")}
    assert "optuna.study" in imported  # for the ledger
    assert ("tuner.search.covariance" in imported) == any(name.startswith("scipy.") for name in imported) == model
