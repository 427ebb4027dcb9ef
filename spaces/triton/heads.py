"""The answer of attention, a head on each core: all scores at once would take as much memory as heads."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def attention(q: Array, k: Array, v: Array, scale: float) -> dict[str, Array]:
    """The output o."""
    answer = np.empty(q.shape)

    def of_head(head: int) -> None:
        queries, keys, values = (each[head].astype(np.float64) for each in (q, k, v))
        scores = (queries @ keys.T) * scale
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        answer[head] = (shares / shares.sum(axis=1, keepdims=True)) @ values

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(of_head, range(len(q))))
    return {"o": answer}
