"""A third-party strategy in a separate process, because it may never return."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from tuner import paths
from tuner.children.child import Child
from tuner.classes import dataclass
from tuner.search.pool import Pool
from tuner.search.proposer import Exhausted, FixedOrder, Proposer

LIKELY = 256  # rows that an answer lists as likely next
PATIENCE_SECONDS = 10.0  # CPU time for one answer, plus 1 ms for each configuration
SLOWNESS = 10.0  # wall-clock time limit, in multiples of that, for a busy machine
END_SECONDS = 5.0  # that a child may take to exit after SIGTERM
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # reproducible sums

Event = tuple[int, bool, Sequence[float] | None]  # a row; True if told, False if claimed; its values
P = TypeVar("P", bound=Proposer)
REST = "random configurations use up the rest of the budget"


@dataclass(frozen=True)
class Answer:
    """The row that a strategy proposes, None to wait for an outstanding result, and rows that are likely next.

    `failure` says why the strategy has ended. `seconds` is the CPU time that it has used so far.
    """

    row: int | None
    likely: list[int]
    failure: str | None
    seconds: float


class Foreign(Proposer):
    """Asks a proposer in a separate process, which creates it by `make`. `make` and its arguments are pickled.

    The process is killed if it computes for longer than PATIENCE_SECONDS without an answer. If it was killed, or if the
    strategy ends early or fails, random rows are proposed instead, and `say` receives a message. `imports` are modules
    that the proposer imports; later processes of a run find them imported.
    """

    def __init__(
        self,
        pool: Pool,
        name: str,
        make: partial[P],
        seed: int,
        say: Callable[[str], None],
        imports: Sequence[str] = (),
    ) -> None:
        super().__init__(pool)
        self._name, self._say = name, say
        self._events: list[Event] = []  # since the child was last asked
        self._patience = PATIENCE_SECONDS + len(pool) / 1000
        self._asked_at: float | None = None  # while the child works on an answer
        self._answer: Answer | None = None
        self._random = FixedOrder.shuffled(pool, seed)
        self._random.free = self.free
        self.seconds = 0.0
        self._work: tuple[Callable[[], Proposer], float] | None = (make, self._patience)  # None once it is sent
        self._process: _Process | None = None
        try:
            self._process = _Process(make.func.__module__, imports)
        except OSError as error:
            say(f"{name}: cannot start a process: {error.strerror}; {REST}")

    def ready(self) -> bool:
        if self._process is None or not self.free.any():
            return True
        if self._answer is not None:
            row = self._answer.row
            if self.free[row] if row is not None else not self._events:
                return True
        try:
            if self._asked_at is None:
                self._answer, self._asked_at = None, time.monotonic()
                if self._work is not None:
                    self._process.questions.send(self._work)
                    self._work = None
                self._process.questions.send(self._events)
                self._events = []
            if self._process.answers.poll():
                self._answer, self._asked_at = self._process.answers.recv(), None
                self.seconds = self._answer.seconds
                if self._answer.failure is not None:
                    self._give_up(self._answer.failure)
                return self.ready()
        except (EOFError, OSError):
            self._process.wait()
            self._give_up()
            return True
        if time.monotonic() > self._asked_at + SLOWNESS * self._patience:
            self._give_up(f"has not answered for {SLOWNESS * self._patience:.0f} s")
            return True
        return False

    def wait(self, seconds: float) -> None:
        if self._process is not None and self._asked_at is not None:
            self._process.answers.poll(seconds)

    def likely(self, count: int) -> list[int]:
        if self._process is None:
            return self._random.likely(count)
        return [row for row in (self._answer.likely if self._answer else ()) if self.free[row]][:count]

    def close(self) -> None:
        self._stop()

    def _next(self) -> int | None:
        while not self.ready():
            self.wait(1.0)
        if self._process is None or self._answer is None:  # the process has been stopped
            return self._random.ask()
        return self._answer.row

    def _expect(self, row: int) -> None:
        self._events.append((row, False, None))

    def _learn(self, row: int, values: Sequence[float] | None) -> None:
        self._events.append((row, True, values))

    def _give_up(self, why: str = "") -> None:
        status = self._stop()
        if status == -signal.SIGPROF:
            why = f"has computed for {self._patience:.0f} s without asking for anything"
        self._say(f"{self._name} {why or f'has lost its process, exit status {status}'}; {REST}")

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        return None if process is None else process.stop()


class _Process:
    """A strategy's process, which has imported `module` and will import `later`, and the connections to it."""

    def __init__(self, module: str, later: Sequence[str]) -> None:
        variables = {**paths.child_environment(), **ONE_THREAD}
        with open(os.devnull, "wb") as nowhere:
            self._child = Child(__name__, nowhere, variables, imports=[module], later=later)
        self.questions = Connection(os.dup(self._child.stdin.fileno()), readable=False)
        self.answers = Connection(os.dup(self._child.stdout.fileno()), writable=False)

    def wait(self) -> int | None:
        """Wait for the process and return its exit status, as `subprocess` does; None if it does not end in time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._child.wait(END_SECONDS)
        return None

    def stop(self) -> int | None:
        """Terminate the process and return its exit status; None if it does not end in time."""
        self._child.send_signal(signal.SIGTERM)
        status = self.wait()
        for end in (self.questions, self.answers, self._child):
            end.close()
        return status


def main() -> None:
    """The entry point of the process. It ends when the parent closes the connection."""
    with contextlib.suppress(OSError):  # if memory runs out, the system kills this process first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    questions, answers = Connection(os.dup(0)), Connection(os.dup(1))
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # discards what strategies print
    with contextlib.suppress(EOFError, BrokenPipeError):
        _serve(questions, answers)


def _serve(questions: Connection, answers: Connection) -> None:
    """Create the proposer, and answer questions."""
    make, patience = questions.recv()
    proposer: Proposer = make()
    while True:
        events: list[Event] = questions.recv()
        signal.setitimer(signal.ITIMER_PROF, patience)  # kills this process even inside a library
        row, failure = None, None
        try:
            for place, is_told, values in events:
                if is_told:
                    proposer.tell(place, values)
                else:
                    proposer.claim(place)
            row = proposer.ask()
        except Exhausted as error:
            failure = str(error)
        except Exception as error:
            failure = f"has failed: {type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
        likely = proposer.likely(LIKELY) if failure is None else []
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.send(Answer(row, likely, failure, time.process_time()))
