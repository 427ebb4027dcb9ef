"""CUDA graphs of calls that a program repeats with the same arguments: one driver call enqueues all steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tuner.devices.cuda.driver.context import Context, launch_error
from tuner.devices.cuda.driver.resources import Graph, Stream
from tuner.devices.cuda.launches import Launch
from tuner.devices.work import Work
from tuner.errors import LaunchError

BEFORE_GRAPH = 8  # calls with the same arguments, because making a graph takes as long as dozens of launches
MOST_STEPS = 64  # steps of a graph, each of which takes memory
MOST_ARGUMENTS = 256  # sets of arguments that are remembered


class CallGraphs:
    """The calls of a launch. Threads must not share it."""

    def __init__(self, context: Context, launch: Launch) -> None:
        self._context, self._launch = context, launch
        self._calls: dict[tuple[int, ...], Callable[[], int]] = {}

    @staticmethod
    def suit(work: Work) -> bool:
        """Whether graphs may replace the launches of a work. The work must have several steps, none of which waits for
        the stream. It must also have scratch memory of its own: a launch with such memory serves one stream only, so a
        call that a graph captures gets a new launch, which has no graphs yet."""
        return bool(work.scratch) and not work.waits and len(work.actions) > 1 and work.launches <= MOST_STEPS

    def with_arguments(self, addresses: Sequence[int], scalars: Sequence[int]) -> Callable[[], int]:
        """A function that enqueues the launch and returns the driver's status. The launch's cells must hold these
        arguments."""
        key = (*addresses, *scalars)
        call = self._calls.get(key)
        if call is None:
            if len(self._calls) >= MOST_ARGUMENTS:
                self._calls.clear()
            call = self._calls[key] = _CallGraph(self._context, self._launch)
        return call


class _CallGraph:
    """A launch with the arguments of its cells."""

    def __init__(self, context: Context, launch: Launch) -> None:
        self._context, self._launch, self._count = context, launch, 0
        self._enqueue: Callable[[], int] = launch.enqueue
        self._graph: Graph | None = None

    def __call__(self) -> int:
        if self._graph is None and self._count <= BEFORE_GRAPH:
            self._count += 1
            if self._count > BEFORE_GRAPH:
                self._make_graph()
        return self._enqueue()

    def _make_graph(self) -> None:
        launch, action = self._launch, f"capturing {self._launch.work.kernel}"
        before = launch.stream.value

        def enqueue() -> None:
            if status := launch.enqueue():
                raise launch_error(action, status)

        try:
            with self._context.apart_from_capture():
                stream = Stream(self._context)
                launch.to(stream.handle.value or 0)
                self._graph = graph = Graph(self._context, stream, enqueue, action)
        except LaunchError:  # the driver cannot capture such launches; step by step, they may still run
            return
        finally:
            launch.to(before or 0)
        self._enqueue = functools.partial(self._context.cuda.cuGraphLaunch, graph.handle, launch.stream)
