"""Tune a problem at its first call: in a process beside this one, once for all processes."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from tuner import paths
from tuner.catalog import kernel_names
from tuner.classes import dataclass
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.quoting import quoted
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import size_text
from tuner.store import locks

MOST_TOLD = 2000  # characters of what a failed run said
_CALLER = 7  # frames from a warning here to the call of the kernel
_TIME = re.compile(r"[1-9]\d{0,5}[smh]")


@dataclass(frozen=True)
class FirstCall:
    """How problems are tuned that have no exact record when they are called.

    A process of its own tunes with arrays of its own, so those of the call are as they were. Other processes that need
    the same problem wait for it, and then find its record. `budget` is a time. While `is_capturing`, a call that had to
    tune is refused.
    """

    budget: str
    is_capturing: Callable[[], bool]

    def __post_init__(self) -> None:
        """Raise RequestError if `budget` is not a time."""
        if not (isinstance(self.budget, str) and _TIME.fullmatch(self.budget)):
            raise RequestError(f"budget={quoted(self.budget)}: write a time: 90s, 2m or 1h")

    def tune(
        self, space: Space, scope: Scope, device: Device, results: Path | None, is_tuned: Callable[[], bool]
    ) -> None:
        """Tune a problem, unless another process has done it, so that it `is_tuned`. Warns if it cannot be tuned."""
        about = f"{space.name} at {size_text(scope.sizes)}"
        if self.is_capturing():
            raise RequestError(
                f"{about} is not tuned, and a CUDA graph is being captured; call it once before the capture"
            )
        command = self._command(space, scope, device, results or paths.user_results())
        with _alone(paths.state() / "first_calls" / paths.digest(*command)):
            if is_tuned():
                return
            warnings.warn(
                f"{about}: the first call tunes it on {device.name}, for {self.budget} and a final round",
                stacklevel=_CALLER,
            )
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                text=True, errors="replace", env=paths.child_environment(),
            )  # fmt: skip
        if done.returncode:
            warnings.warn(f"{about}: not tuned: {done.stdout[-MOST_TOLD:].strip()}", stacklevel=_CALLER)

    def _command(self, space: Space, scope: Scope, device: Device, results: Path) -> list[str]:
        """The command that tunes a problem."""
        sizes = ",".join(f"{name}={value}" for name, value in scope.sizes.items())
        options = [f"--set={name}={value!r}" for name, value in scope.options.items()]
        types = [f"--type={name}={value}" for name, value in scope.types.items()]
        place = [f"--device={device.id}", f"--budget={self.budget}", f"--results={results.absolute()}"]
        command = [sys.executable, "-P", "-m", "tuner", "kernel", kernel_names.address(space), sizes]
        return [*command, *place, *options, *types]


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """A block that one process at a time is in, of those with the same `path`; the others wait as long as it takes."""
    paths.private(path.parent)
    with locks.of(path).acquire(timeout=-1):
        yield
