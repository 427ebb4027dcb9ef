"""Launches that threads, signals and interrupts make at the same time."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.arrays import SHAPE, arrays, in_threads

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")


@pytest.mark.slow
def test_threads_share_a_kernel(opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    _, A, B = arrays()
    zero = np.zeros((1, 40, 30), np.float32)
    queues = [cl.CommandQueue(opencl.context) for _ in range(4)]
    given = [[array.to_device(q, x) for x in (zero, A * n, B)] for n, q in enumerate(queues, 1)]

    def work(number: int) -> None:
        for _ in range(500):
            kernel(*given[number], beta=1.0)

    in_threads(work)
    for number, (C, *_) in enumerate(given, 1):
        np.testing.assert_allclose(C.get(), 500 * number * (A @ B), rtol=1e-4)


def test_threads_share_a_bound_launch(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 16, device=opencl)
    ones = np.ones((1, 16, 16), np.float32)
    C, A, B = (array.to_device(opencl.queue, x) for x in (0 * ones, ones, ones))
    launch = kernel.bind(C, A, B, beta=1.0)
    in_threads(lambda number: [launch() for _ in range(250)] and None)
    assert (C.get() == 16_000).all()


@pytest.mark.slow
def test_a_launch_within_a_launch_of_the_same_kernel_takes_nothing_of_it(opencl: Any) -> None:
    """As a signal handler's may be, at any point of the other one."""
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 16, device=opencl)
    ones = np.ones((1, 16, 16), np.float32)
    outer, inner = ([array.to_device(opencl.queue, x) for x in (0 * ones, ones, ones)] for _ in "XY")
    within = 0

    def handler(*_: object) -> None:
        nonlocal within
        within += 1
        kernel(*inner, alpha=2.0, beta=1.0)

    kernel(*outer, beta=1.0)
    before = signal.signal(signal.SIGALRM, handler)
    random = np.random.default_rng(1)
    try:
        for _ in range(999):
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1e-4))
            kernel(*outer, beta=1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert within > 10
    assert (outer[0].get() == 16_000).all()
    assert (inner[0].get() == within * 32).all()


@pytest.mark.slow
def test_a_launch_that_an_interrupt_ends_leaves_nothing_to_the_next_one(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 16, device=opencl)
    ones = np.ones((1, 16, 16), np.float32)
    C, A, B = (array.to_device(opencl.queue, x) for x in (ones, ones, ones))
    kernel(C, A, B)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before, random, interrupted = signal.signal(signal.SIGALRM, interrupt), np.random.default_rng(1), 0
    try:
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 6e-5))
                kernel(C, A, B, alpha=2.0)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            kernel(C, A, B)
            assert (C.get() == 16).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 10
