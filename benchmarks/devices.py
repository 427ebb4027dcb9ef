"""One GPU against all GPUs of this machine: brute force over the same space, first on one, then on all.

    python benchmarks/devices.py benchmarks/register_tiled.yaml 4096

Each run starts without earlier trials or builds. Prints the seconds from the first configuration to the last, and
from the start of the command to the record, which includes start-up and finals.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from throughput import Clock

from tuner.tuning import driver
from tuner.tuning.request import TuningRequest


def run(kernel: str, size: str, devices: str) -> dict[str, Any]:
    """One run of the driver."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TUNER_STATE"] = os.environ["TUNER_CACHE"] = folder
        clock, start = Clock(), time.time()
        result = driver.tune(TuningRequest(kernel, size, devices, results=Path(folder)), clock)
        whole = time.time() - start
    assert result.record is not None
    return {
        "devices": devices,
        "configurations": len(clock.times),
        "seconds": clock.times[-1] - clock.times[0],
        "whole": whole,
        "best_ms": result.record.time_ms,
        "config": result.record.config,
    }


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel")
    parser.add_argument("size")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    runs = []
    for devices in ("cuda:0", "all"):
        runs.append(r := run(options.kernel, options.size, devices))
        print(
            f"{r['devices']}: {r['configurations']} configurations in {r['seconds']:.1f} s, {r['whole']:.1f} s in all; "
            f"best {r['best_ms']:.4f} ms: {r['config']}",
            flush=True,
        )
    search, whole = (runs[1][key] / runs[0][key] for key in ("seconds", "whole"))
    print(f"{search:.2f} of the time; {whole:.2f} with start-up and finals")
    if options.json:
        options.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
