"""What surrounds a run: its standard files, the folder it is started in, and kernels that say too much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.kernels import MULTIPLY, Stage, c_kernel
from helpers.ledgers import outcomes
from helpers.processes import PATIENCE_SECONDS, Tune, fork_servers, of_this_test, start, wait_until
from helpers.short_finals import TUNE

pytestmark = pytest.mark.slow


@pytest.fixture
def plain(stage: Stage) -> Path:
    return stage(c_kernel("plain", MULTIPLY), "plain", "{mode: [0, 1]}")


@pytest.mark.parametrize("closed", ["0<&-", "0<&- 1>&- 2>&-"])
def test_a_run_whose_standard_files_are_closed_measures_as_any_other(closed: str, plain: Path, tmp_path: Path) -> None:
    command = f"exec {sys.executable} -m tuner {plain} 8 --device host --repeats 1 {closed}"
    done = subprocess.run(["sh", "-c", command], timeout=PATIENCE_SECONDS, check=False, stdout=subprocess.DEVNULL)
    assert done.returncode == 0
    assert set(outcomes(tmp_path).values()) == {None}


def test_no_module_of_the_folder_that_a_run_is_started_in_is_imported_by_its_processes(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap, traces = tmp_path / "trap", tmp_path / "traces"
    for folder in (trap, traces):
        folder.mkdir()
    for name in ("json", "numpy", "select", "statistics", "secrets"):
        (trap / f"{name}.py").write_text(f"import os\nopen({str(traces)!r} + f'/{name}-{{os.getpid()}}', 'w')\n")
    monkeypatch.chdir(trap)
    # The command itself does not look there, as `tune` the script does not.
    command = [sys.executable, "-P", *TUNE, str(plain), "8", "--device", "host", "--repeats", "1"]
    done = subprocess.run(command, timeout=PATIENCE_SECONDS, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(outcomes(tmp_path).values()) == {None}
    assert list(traces.iterdir()) == []


def test_a_kernel_that_prints_without_end_fills_no_disk_and_is_judged_by_its_result(
    stage: Stage, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    flood = 'for (int i = 0; i < 2000; i++) fprintf(mode == 1 ? stdout : stderr, "%01000d\\n", i);'
    file = stage(
        "#include <stdio.h>\n" + c_kernel("loud", f"if (mode) {flood} {MULTIPLY}"), "loud", "{mode: [0, 1, 2]}"
    )
    done = tune(file, "8", "--repeats", "3", "--json")
    assert done.status == 0, done.err
    assert "0000000" not in done.err
    assert outcomes(tmp_path) == {json.dumps({"mode": mode}): None for mode in range(3)}
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) == 0


def test_a_run_whose_terminal_goes_away_ends_and_keeps_what_it_measured(stage: Stage, tmp_path: Path) -> None:
    file = stage(c_kernel("slow", f"if (mode > 2) usleep(300000); {MULTIPLY}"), "slow", f"{{mode: {list(range(40))}}}")
    process = start(str(file), "8", "--device", "host", "--repeats", "1")
    wait_until(lambda: len(outcomes(tmp_path)) > 1, process, pause=0.2)
    assert len(fork_servers(process.pid)) == 1, "the one that has begun to import at the start"
    os.kill(process.pid, 1)  # SIGHUP
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 143, err
    assert "finished trials are kept" in err
    assert 1 < len(outcomes(tmp_path)) < 40
    wait_until(lambda: not of_this_test())
