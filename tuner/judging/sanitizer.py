"""compute-sanitizer on one launch of a candidate: reads and writes outside arrays, and races in shared memory.

This module is also the program that it watches: `python -m tuner.judging.sanitizer FILE` launches once what FILE holds.
"""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import devices, paths
from tuner.devices.program import Program
from tuner.errors import DeviceError
from tuner.judging.verdict import Refusal

if TYPE_CHECKING:
    from tuner.devices.base import Array
    from tuner.devices.built import Built

PROGRAM, TOOLS = "compute-sanitizer", ("memcheck", "racecheck")
FOUND = 86  # its exit status if it finds an error
MOST_LINES = 4  # of what it prints, in a message
CLEAN, NOT_ASKED = "clean", "not asked for"


def require(device: str) -> None:
    """Raise DeviceError if it cannot watch kernels of this device."""
    if devices.split(device)[0] != "cuda":
        raise DeviceError(f"--sanitize: {PROGRAM} watches kernels on cuda alone, not on {device}; leave it out")
    if shutil.which(PROGRAM) is None:
        raise DeviceError(f"--sanitize: {PROGRAM} is not on the path; install it with CUDA's toolkit, or leave it out")


def check(device: str, built: Built, contents: Mapping[str, Array], seconds: float) -> str:
    """CLEAN, or why it could not watch the launch of a build on arrays with these bytes. Raises Refusal if it finds an
    error. Each of its tools may take `seconds`."""
    with tempfile.NamedTemporaryFile(dir=paths.temporary(), suffix=".launch") as file:
        pickle.dump((device, built, dict(contents)), file, pickle.HIGHEST_PROTOCOL)
        file.flush()
        for tool in TOOLS:
            command = [PROGRAM, "--tool", tool, "--error-exitcode", str(FOUND), sys.executable, "-P", "-m", __name__]
            try:
                done = subprocess.run(
                    [*command, file.name], capture_output=True, text=True, check=False, timeout=seconds,
                    env=paths.child_environment(),
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"{tool}: {error}"
            said = [line.lstrip("= ") for line in done.stdout.splitlines() if line.startswith("=========")]
            told = "; ".join([line for line in said if line and PROGRAM.upper() not in line][:MOST_LINES])
            if done.returncode == FOUND:
                raise Refusal("sanitizer", f"{tool}: {told}")
            if done.returncode:
                return f"{tool}: {told or done.stderr.strip()[-200:]}"
    return CLEAN


def main() -> None:
    """Launch once. Arrays have no guards, so that the sanitizer knows where each ends."""
    name, built, contents = pickle.loads(Path(sys.argv[1]).read_bytes())  # noqa: S301  # the judge's own file
    device = devices.open_device(name)
    program = Program(device, built)
    buffers = {name: device.upload(data) for name, data in contents.items()}
    work = program.work()
    device.bind(work, [buffers[each.name].handle for each in program.space.operation.arrays])()
    device.synchronize()


if __name__ == "__main__":
    main()
