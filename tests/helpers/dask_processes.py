"""A scheduler of Dask and workers, in processes of their own, forked from one that has imported Dask.

Run as a module, this is that process: each line of its input asks for a process, whose number, and for a scheduler the
port, is a line of its output.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from helpers import ROOT
from tuner.children import reaper


class DaskProcesses:
    """A scheduler, and the workers that a test adds. `close` it at the end."""

    def __init__(self, folder: Path, encrypted: bool = False) -> None:
        """With `encrypted`, processes talk by TLS, with what is in `variables`."""
        self._folder = folder
        self.variables = _encryption(folder) if encrypted else {}
        path = os.pathsep.join(filter(None, [str(ROOT / "tests"), os.environ.get("PYTHONPATH")]))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "helpers.dask_processes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.variables, "PYTHONPATH": path},
        )
        port = self._asked(protocol="tls" if encrypted else "tcp")["port"]
        self.address = f"{'tls' if encrypted else 'tcp'}://127.0.0.1:{port}"

    def add(self, name: str, **variables: str) -> int:
        """Add a worker with a cache of its own, so that it counts as a machine; gives its process id.

        With the variable VERSION it says that this version of the package is installed.
        """
        own = {"TUNER_CACHE": str(self._folder / name), **variables}
        return int(self._asked(scheduler=self.address, folder=str(self._folder / "dask"), variables=own)["pid"])

    def _asked(self, **request: Any) -> dict[str, Any]:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        print(json.dumps(request), file=self._server.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._server.stdout.readline())
        return answer

    def close(self) -> None:
        """End all processes."""
        self._server.kill()
        self._server.communicate()


def _encryption(folder: Path) -> dict[str, str]:
    """The settings of Dask for TLS, with a certificate of this test's own."""
    assert shutil.which("openssl"), "openssl is not installed"
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost"),
        ],
        check=True,
        capture_output=True,
    )
    names = [f"{role}__{part}" for role in ("SCHEDULER", "WORKER", "CLIENT") for part in ("CERT", "KEY")]
    files = {name: key if name.endswith("KEY") else certificate for name in names}
    settings = {**files, "CA_FILE": certificate}
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(file) for name, file in settings.items()}


async def _scheduler(protocol: str, answer: int) -> None:
    from distributed import Scheduler

    async with Scheduler(protocol=protocol, host="127.0.0.1", port=0, dashboard=False) as scheduler:
        os.write(answer, json.dumps({"port": scheduler.port}).encode() + b"\n")
        await scheduler.finished()


async def _worker(address: str, folder: str) -> None:
    from distributed import Worker

    async with Worker(address, nthreads=1, dashboard=False, local_directory=folder) as worker:
        await worker.finished()


def _run(request: dict[str, Any], answer: int) -> None:
    """Be the process that a request asks for, which ends with its parent."""
    reaper.end_with_parent(signal.SIGKILL)
    if "protocol" in request:
        asyncio.run(_scheduler(request["protocol"], answer))
        return
    os.environ.update(request["variables"])
    if (version := os.environ.get("VERSION")) is not None:
        importlib.metadata.version = lambda _: version
    asyncio.run(_worker(request["scheduler"], request["folder"]))


def main() -> None:
    import distributed  # noqa: F401  # which the processes need

    answer = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        if (pid := os.fork()) == 0:
            with contextlib.suppress(KeyboardInterrupt):
                _run(request, answer)
            os._exit(0)
        if "protocol" not in request:
            os.write(answer, json.dumps({"pid": pid}).encode() + b"\n")


if __name__ == "__main__":
    main()
