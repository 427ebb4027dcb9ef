"""The rate that no kernel can pass: what a GPU's FP32 lanes do when each is busy at every clock."""

from __future__ import annotations

from tuner.devices.base import Peak

# Results of a 32-bit multiply-add a clock and multiprocessor, by compute capability: CUDA C++ Programming Guide,
# "Throughput of Native Arithmetic Instructions".
_LANES = {
    (5, 0): 128, (5, 2): 128, (5, 3): 128, (6, 0): 64, (6, 1): 128, (6, 2): 128, (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (12, 0): 128,
}  # fmt: skip


def fp32(compute_capability: tuple[int, int], multiprocessors: int, clock_khz: int) -> Peak | None:
    """The peak of an NVIDIA GPU, at the clock that its driver calls its peak; None where its lanes are not known."""
    lanes = _LANES.get(compute_capability)
    return Peak(multiprocessors, lanes, clock_khz / 1e3) if lanes and clock_khz > 0 else None
