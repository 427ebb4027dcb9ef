"""A storage that survives outages: it repeats requests while a server restarts or a connection is broken."""

import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from optuna.storages import BaseStorage

from tuner.tuning.ledger import address, storage
from tuner.tuning.ledger.trial import RESUME

PATIENCE_SECONDS = 120.0  # longest outage; then the run ends
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0  # seconds between attempts; each pause is twice the one before
STALL_SECONDS = 3.0  # a request that takes longer counts as an outage


class PatientStorage:
    """A storage whose methods are repeated during outages. One thread at a time may call them.

    They raise RequestError if the storage fails for good.
    """

    def __init__(self, inner: BaseStorage, where: str, say: Callable[[str], None]) -> None:
        """`where` is the storage's URL or path; `say` is called with messages for the user."""
        self.inner = inner
        self._where, self._say = where, say
        self._gives_up = threading.Event()
        self._down_since: float | None = None
        self.stalled_at = 0.0  # when the last outage ended, in seconds on the monotonic clock

    def give_up(self) -> None:
        """Repeat no request from now on. Any thread may call this."""
        self._gives_up.set()

    def __getattr__(self, name: str) -> Any:
        return partial(self.request, getattr(self.inner, name))

    def once(self, name: str, *arguments: Any) -> Any:
        """Call the method `name` once, without repeating it during an outage."""
        handled = sys.exception()
        try:
            return getattr(self.inner, name)(*arguments)
        except Exception as error:
            storage.check(error, handled)
            self.stalled_at = time.monotonic()
            raise storage.unusable(error, self._where, RESUME) from None

    def request(self, method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call `method`, and repeat it during an outage, for at most PATIENCE_SECONDS."""
        pause, handled = FIRST_PAUSE, sys.exception()
        while True:
            began = time.monotonic()
            try:
                answer = method(*arguments, **options)
            except Exception as error:
                storage.check(error, handled)
                if not self._waits(error) or self._gives_up.wait(pause):
                    raise storage.unusable(error, self._where, RESUME) from None
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                if self._down_since is not None:
                    self._say(f"{address.masked(self._where)}: the database answers again")
                if self._down_since is not None or time.monotonic() - began > STALL_SECONDS:
                    self._down_since, self.stalled_at = None, time.monotonic()
                return answer

    def _waits(self, error: Exception) -> bool:
        """Whether to wait and repeat the request. Tells the user once per outage."""
        if not storage.may_pass(error) or self._gives_up.is_set():
            return False
        now = time.monotonic()
        if self._down_since is None:
            self._down_since = now
            self._say(
                f"{address.masked(self._where)}: the database does not answer: {storage.reason(error, self._where)}; "
                f"trying again for {PATIENCE_SECONDS:g} s"
            )
        return now - self._down_since <= PATIENCE_SECONDS
