"""What stands here for the supervisor of a device of another machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, TypeVar

from tuner.devices import environment
from tuner.errors import DeviceError, EnvironmentTrouble
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.process.task import Task
from tuner.measure.remote.remote_device import RemoteDevice
from tuner.measure.results import FoundWrong
from tuner.space.config import Config

T = TypeVar("T")


class RemoteSupervisor(Supervisor):
    """A supervisor of a RemoteDevice. Several may share the device: each can build while another one measures.

    `share` numbers the devices of a run. `was_measuring` says whether it was measuring when the device was lost.
    Where a Supervisor raises EnvironmentTrouble because its device cannot be opened again, this one raises DeviceError:
    the station has already tried.
    """

    def __init__(self, task: Task, remote: RemoteDevice, products: BinaryIO) -> None:
        super().__init__(task, remote.info.id, products)
        self.remote = remote
        self.device, self.scope = remote.info, remote.scope
        self._is_final = self.was_measuring = False
        self.share = 0

    @property
    def _name(self) -> str:
        return self.remote.name

    @property
    def compiler(self) -> str | None:
        return self.remote.compiler

    def start(self) -> None:
        self.switch_to(self.task)

    def switch_to(self, task: Task) -> None:
        self.task = task
        self.remote.switch_to(task)
        self.device, self.scope = self.remote.info, self.remote.scope

    def settle(self) -> None:
        """Do nothing: the station waits by itself."""

    def get_ready(self) -> None:
        self.missed_cases, self.notes = self.remote.get_ready()

    def build(self, config: Config, likely: Sequence[Config] = ()) -> None:
        """Build a configuration, as `RemoteDevice.build` does."""
        self.remote.build(config, likely)

    def kill(self) -> None:
        self.remote.close()

    def close(self) -> None:
        """Do nothing: whoever has the device closes it."""

    def renew(self) -> None:
        self._is_final = True

    def _reply(self, request: dict[str, Any], seconds: float, found_wrong: FoundWrong) -> dict[str, Any]:
        is_final, self._is_final = self._is_final, False
        return self.remote.ask(request, seconds, is_final, found_wrong)


class RemoteLead(RemoteSupervisor):
    """The supervisor for the finals, on one of several devices of a kind. When its device is lost, it goes on with
    another one: it raises EnvironmentTrouble once, so that the work is tried again."""

    def __init__(self, task: Task, remotes: Callable[[], list[RemoteDevice]], products: BinaryIO) -> None:
        """`remotes` returns the devices that are not lost."""
        super().__init__(task, remotes()[0], products)
        self._remotes = remotes

    def get_ready(self) -> None:
        self._safely(super().get_ready)

    def switch_to(self, task: Task) -> None:
        self.task = task
        self._safely(lambda: None)

    def build(self, config: Config, likely: Sequence[Config] = ()) -> None:
        self._safely(lambda: self.remote.build(config, likely))

    def _reply(self, request: dict[str, Any], seconds: float, found_wrong: FoundWrong) -> dict[str, Any]:
        return self._safely(lambda: super(RemoteLead, self)._reply(request, seconds, found_wrong))

    def _safely(self, action: Callable[[], T]) -> T:
        """Call `action` with a device that is on the task. Raises EnvironmentTrouble if the device is lost."""
        if self.remote.is_lost and (others := self._remotes()):
            self.remote = others[0]
        try:
            super().switch_to(self.task)
            return action()
        except DeviceError as error:
            if self.remote.is_lost:
                raise EnvironmentTrouble(str(error), environment.LOST) from None
            raise
