"""Hardware counters of one launch of a configuration, from NVIDIA's profiler `ncu`, which runs a separate process."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner import devices, paths
from tuner.devices.built import build
from tuner.devices.program import Program
from tuner.errors import RequestError
from tuner.measure import turns
from tuner.measure.workbench import Workbench
from tuner.quoting import shown
from tuner.space import launch_form, snapshot
from tuner.space.instance import Instance

if TYPE_CHECKING:
    from tuner.report.subject import Subject
    from tuner.space.config import Config

SECONDS = 300.0  # timeout of one profile: ncu replays the kernel many times
PLACES = ("/usr/local/cuda/bin/ncu", "/opt/nvidia/nsight-compute/ncu")
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
COUNTERS: Mapping[str, str] = {  # ncu's metric names: the labels shown, which are JSON members too
    "gpu__time_duration.sum": "time under the profiler",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "arithmetic and issue, of peak",
    "l1tex__throughput.avg.pct_of_peak_sustained_active": "L1 and shared memory, of peak",
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": "L2, of peak",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": "device memory, of peak",
    "dram__bytes.sum": "bytes of device memory",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy reached",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue slots used",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": "conflicts of shared memory banks",
    _STALLED.format("long_scoreboard"): "warps that wait for memory, per issue",
    _STALLED.format("short_scoreboard"): "warps that wait for shared memory, per issue",
    _STALLED.format("barrier"): "warps that wait at a barrier, per issue",
    _STALLED.format("math_pipe_throttle"): "warps that wait for arithmetic, per issue",
}


def program() -> str:
    """The path of `ncu`. Raises RequestError if it is not installed."""
    found = shutil.which("ncu") or next((place for place in PLACES if Path(place).exists()), None)
    if found is None:
        raise RequestError("--counters: ncu is not installed; install NVIDIA Nsight Compute, or leave --counters out")
    return found


def profile(subject: Subject, config: Config, device: str) -> dict[str, str]:
    """The counters of one launch of `config`, as texts with units, under the labels of COUNTERS.

    Raises RequestError if `device` is not a CUDA device, or the profiler is missing, may not read counters, or reports
    none.
    """
    problem = subject.problem
    if problem is None or devices.split(device)[0] != "cuda":
        raise RequestError(f"--counters: ncu profiles only NVIDIA GPUs, not {device}; leave --counters out")
    request = {
        "space": launch_form.to_json(problem.space),
        "files": snapshot.to_json(),
        "sizes": dict(problem.sizes),
        "options": dict(problem.options),
        "types": dict(problem.types),
        "config": config,
        "device": device,
    }
    names = "|".join(re.escape(re.split("[{<]", step.kernel)[0]) for step in problem.space.steps)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(request, file)
        file.flush()
        command = [
            program(), "--csv", "--page", "raw", "--metrics", ",".join(COUNTERS), "--kernel-name", f"regex:{names}",
            "--launch-count", "1", sys.executable, "-P", "-m", "tuner.report.counters", file.name,
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=SECONDS,
                check=False,
                env=paths.child_environment(),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RequestError(f"--counters: ncu failed to run: {error}; leave --counters out") from None
    profile = parse(done.stdout)
    if not profile:
        raise RequestError(f"--counters: ncu reported no counters: {_why(done.stdout + done.stderr)}")
    return profile


def parse(text: str) -> dict[str, str]:
    """The counters in the output of `ncu --csv --page raw`: a line of names, a line of units, a line per launch."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    table = list(csv.reader(lines))
    if len(table) < 3:
        return {}
    header, units, values = table[:3]
    known = {
        name: f"{value} {unit}".strip().replace(" %", "%")
        for name, unit, value in zip(header, units, values, strict=False)
    }
    return {label: known[name] for name, label in COUNTERS.items() if known.get(name, "")}


def _why(text: str) -> str:
    """The reason why ncu reported no counters, from its output, and the next step."""
    if "ERR_NVGPUCTRPERM" in text:
        return (
            "this user may not read counters; ask an administrator to load the driver with "
            "NVreg_RestrictProfilingToAdminUsers=0, or leave --counters out"
        )
    errors = [line for line in text.splitlines() if "error" in line.casefold()] or text.splitlines()[-1:]
    return f"{shown(' '.join(errors[:2])) or 'it gives no reason'}; leave --counters out"


def main() -> None:
    """The profiled process: launches and verifies the configuration of the request in the file argv[1]."""
    request: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    device = devices.open_device(request["device"])
    snapshot.adopt(request["files"])
    space = launch_form.from_json(request["space"])
    scope = space.operation.scope(
        request["sizes"], request["options"], device.language, device.limits, request["types"]
    )
    bench = Workbench(device, space, scope)
    built = build(device.compiler, Instance(space, request["config"], scope))
    with turns.taken(device.place):
        bench.verify(bench.bind(Program(device, built)))


if __name__ == "__main__":
    main()
