"""`--verbose`: print the library's log messages on standard error."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

LOGGER = "tuner"


class _Lines(logging.Handler):
    """A logging handler that passes each formatted message to a function that prints it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__()
        self._say = say
        self.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03d %(name)s: %(message)s", "%H:%M:%S"))

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._say(self.format(record))
        except Exception:
            self.handleError(record)


@contextlib.contextmanager
def printed(verbose: bool, say: Callable[[str], None]) -> Iterator[None]:
    """A context in which the library's log messages are passed to `say`, if `verbose`."""
    if not verbose:
        yield
        return
    logger, handler = logging.getLogger(LOGGER), _Lines(say)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
