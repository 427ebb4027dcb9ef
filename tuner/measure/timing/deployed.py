"""Calls as a program makes them: how many launches one time covers, and how they are enqueued."""

from __future__ import annotations

from collections.abc import Callable

from tuner.space.deployments import REPEATED, Deployment

LAUNCHES = 16  # that one time covers; one, if a run reads what an earlier one wrote

Call = Callable[[], None]


class Deployed:
    """A call as a program makes it: `call` enqueues `count` launches, one by one or as a graph, which one time covers.

    The device waits for the host if it `is_eager`.
    """

    def __init__(self, call: Call, deployment: Deployment, may_repeat: bool) -> None:
        """`may_repeat`: whether a launch leaves what the next one reads as it was. Raises LaunchError if the call
        cannot be a graph."""
        self.count = LAUNCHES if may_repeat and deployment in REPEATED else 1
        self.is_eager, graph = deployment == "eager", getattr(call, "graph", None)
        self.is_graph = deployment == "graph" and graph is not None
        self.call = graph(self.count) if self.is_graph and graph else _repeated(call, self.count)


def _repeated(call: Call, count: int) -> Call:
    if count == 1:
        return call  # a call more would count on a processor

    def repeat() -> None:
        for _ in range(count):
            call()

    return repeat
