"""The crews of one run over several tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tuner.space import snapshot

if TYPE_CHECKING:
    from tuner.measure.process.task import Task
    from tuner.tuning.crew.crew import Crew


class _Once:
    """Passes each message to the user only the first time."""

    def __init__(self, noted: Callable[[str], None]) -> None:
        self._noted, self._seen = noted, set[str]()

    def __call__(self, text: str) -> None:
        if text not in self._seen:
            self._seen.add(text)
            self._noted(text)


class Crews:
    """The crews of one run over several tasks, as a context manager.

    Each set of devices has one crew, which serves task after task. A message that occurs in several tasks is shown
    once. A file of a space is read once: what is written to it meanwhile is for the next run.
    """

    def __init__(self, noted: Callable[[str], None]) -> None:
        """`noted` is called with messages for the user."""
        self.noted = _Once(noted)
        self._crews: dict[tuple[str, ...], Crew] = {}
        self._block = contextlib.ExitStack()

    def __enter__(self) -> Crews:
        self._block.enter_context(snapshot.kept(self.noted))
        return self

    def __exit__(self, *_: object) -> None:
        with self._block:
            for crew in self._crews.values():
                crew.close()

    def on(
        self, task: Task, device_ids: Sequence[str], cluster: str | None = None
    ) -> contextlib.AbstractContextManager[Crew]:
        """Enter a block in which a crew works on `task` on these devices: see `Crew.on`.

        With the address of a `cluster`, on its devices of these kinds and numbers.
        """
        key = (*device_ids, cluster or "")
        crew = self._crews.get(key)
        if crew is None or crew.is_closed:
            crew = self._crews[key] = self._opened(task, device_ids, cluster)
        return crew.on(task)

    def _opened(self, task: Task, device_ids: Sequence[str], cluster: str | None) -> Crew:
        if cluster is not None:
            from tuner.tuning.crew.cluster_crew import ClusterCrew  # few runs need one

            return ClusterCrew(task, device_ids, cluster, self.noted)
        from tuner.tuning.crew.crew import Crew

        return Crew(task, device_ids, self.noted)
