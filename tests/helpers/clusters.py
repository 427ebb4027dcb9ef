"""A cluster without an engine: stations of this process, and the way to them."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

from helpers.processes import PATIENCE_SECONDS
from tuner.measure.remote.relay import ENDED, Relay
from tuner.measure.remote.remote_device import Lost

# A kernel in C that waits until the file GATE is there: until then, all workers hold a configuration.
GATED = """
#define _GNU_SOURCE
#include <unistd.h>
void gated(float *C, const float *A, const float *B, int M, int N, int K, int batch, float alpha, float beta) {
    while (access(GATE, F_OK)) usleep(20000);
    usleep(v == 7 ? 500 : 6000);
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++) sum += A[i / N * K + k] * B[k * N + i % N];
        C[i] = beta == 0 ? alpha * sum : alpha * sum + beta * C[i];
    }
}
"""


class PipeLine:
    """The way to a station by a Relay of this process, where Dask has one between them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._relay = Relay()
        self._number = self._run(self._relay.start())

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = json.loads(self._run(self._relay.ask(self._number, json.dumps(request))))
        if ENDED in reply:
            raise Lost(reply[ENDED])
        return reply

    def close(self) -> None:
        self._run(self._relay.end(self._number))


class ClusterHere:
    """Stands for an engine: two workers, both of this machine."""

    trouble, has_ended = None, False

    def __init__(self, address: str) -> None:
        self.address = address

    def workers(self) -> list[str]:
        return ["one", "two"]

    def relay(self, worker: str) -> str:
        return worker

    def line(self, actor: str) -> PipeLine:
        return PipeLine()

    def close(self) -> None:
        """Do nothing: the stations end one by one."""
