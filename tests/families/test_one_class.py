"""`tuner.dispatch(..., one_class=True)`: equal bits, whatever was tuned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.kernels import Stage, c_kernel
from helpers.processes import Tune
from tuner.devices import Device

# Order 0 adds from the front, and so do 1 and 2, after some time; 3 adds from the back.
SUM = """
    usleep(order == 3 ? 0 : order == 2 ? 2000 : 4000);
    for (int i = 0; i < batch * M; i++) for (int j = 0; j < N; j++) {
        float s = 0;
        for (int l = 0; l < K; l++) {
            const int k = order == 3 ? K - 1 - l : l;
            s += A[i * K + k] * B[(i / M) * K * N + k * N + j];
        }
        C[i * N + j] = beta == 0 ? alpha * s : alpha * s + beta * C[i * N + j];
    }
"""


@pytest.mark.slow
def test_a_dispatch_of_one_class_gives_the_same_bits_before_and_after_tuning(
    tune: Tune, stage: Stage, host: Device, tmp_path: Path
) -> None:
    file = stage(c_kernel("ordered", SUM), "ordered", "{order: [0, 1, 2, 3]}", more="default: {order: 0}")
    random = np.random.default_rng(49)
    A, B = random.random((1, 16, 16), np.float32), random.random((1, 16, 16), np.float32)
    C = np.zeros((1, 16, 16), np.float32)

    def bits(**more: bool) -> tuple[bytes, int]:
        product = tuner.dispatch(file, device=host, **more)
        product(C, A, B)
        kernel = product.kernel(C, A, B)
        assert isinstance(kernel, tuner.Kernel)
        return C.tobytes(), int(kernel.config["order"])

    before, order = bits(one_class=True)
    assert order == 0, "without a record, the default"
    assert tune(file, "16", "--json").json["best"]["config"]["order"] in range(4)
    after, order = bits(one_class=True)
    assert (after, order in (0, 1, 2)) == (before, True)
    free, order = bits()
    assert (free == before) == (order != 3)
    assert tune(file, "16", "--same-bits-as", "default").status == 0
    assert bits(one_class=True)[0] == before
