"""`--verbose`: what the library logs, as lines on standard error."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from tuner.cli import output

LOGGER = "tuner"


class _Lines(logging.Handler):
    """Hands each message to a function that prints it."""

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
def printed(verbose: bool, say: Callable[[str], None] = output.say) -> Iterator[None]:
    """A block in which what the library logs is handed to `say`, if `verbose`."""
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
