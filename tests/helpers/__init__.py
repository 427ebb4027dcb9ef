"""What several tests need: records, processes, arrays, kernels, and where the repository lies."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILDS = "TUNER_TEST_BUILDS"  # the environment's variable for a folder of builds that several runs of tests share
