"""The theoretical peak FP32 rate of an NVIDIA GPU, with all FP32 lanes busy in every clock cycle."""

from tuner.devices.info import Peak

# Results of 32-bit multiply-adds per clock cycle and multiprocessor, by compute capability: CUDA C++ Programming Guide,
# "Throughput of Native Arithmetic Instructions".
_LANES = {
    (5, 0): 128, (5, 2): 128, (5, 3): 128, (6, 0): 64, (6, 1): 128, (6, 2): 128, (7, 0): 64, (7, 2): 64, (7, 5): 64,
    (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (12, 0): 128,
}  # fmt: skip

# Multiply-adds per clock cycle and multiprocessor in the fastest dense tensor-core format (FP16, INT8, INT4, FP8 or
# FP4): NVIDIA's white papers of the architectures.
_MOST = {
    (7, 0): 512, (7, 5): 2048, (8, 0): 4096, (8, 6): 2048, (8, 9): 2048, (9, 0): 4096, (10, 0): 16384, (12, 0): 2048,
}  # fmt: skip


def fp32(compute_capability: tuple[int, int], multiprocessors: int, clock_khz: int) -> Peak | None:
    """The peak at the clock rate `clock_khz`; None if the number of lanes or the clock rate is unknown."""
    lanes = _LANES.get(compute_capability)
    most = _MOST.get(compute_capability)
    return Peak(multiprocessors, lanes, clock_khz / 1e3, most) if lanes and clock_khz > 0 else None
