"""What several tests need: records, processes, arrays, kernels, and where the repository lies."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
