"""Builds of candidates: compiled in a process that can be killed, and made ready for the process that launches them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tuner.devices import forkable_packages
from tuner.devices.built import Built, build
from tuner.errors import GeometryError, LaunchError, ResourceError, SpaceError, TrialError, WorkerDied
from tuner.judging.verdict import Refusal
from tuner.measure.process.compile_workers import CompileWorkers, task_of
from tuner.quoting import shown
from tuner.space.instance import Instance
from tuner.space.sources import source_text
from tuner.space.sources.checks import agreement
from tuner.space.values.forms import NoReference

if TYPE_CHECKING:
    from tuner.devices.base import Device
    from tuner.space.config import Config
    from tuner.space.model import Space
    from tuner.space.scope import Scope


class Builder:
    """Builds the texts of candidates for one device."""

    def __init__(self, device: Device, timeout: float) -> None:
        """`timeout` is in seconds per build. Raises EnvironmentTrouble."""
        self._device, self._timeout = device, timeout
        self._workers = CompileWorkers(timeout, forkable_packages(device.id) or (), ())

    def check(self, space: Space) -> None:
        """Raise Refusal if a text proves that its kernel takes other parameters than the space's."""
        try:
            texts = {path: source_text.device(space, path) for path in space.sources}
        except SpaceError as error:
            raise Refusal("compile", _named(str(error), space)) from None
        for fault in agreement.faults(space, texts):
            is_argument = fault.where[:2] == ("operation", "arguments")
            if fault.fatal or is_argument:
                message = _named(fault.message, space)
                if is_argument:  # the advice is for the space's author, and the space stays
                    message = f"{message.split('; ')[0]}; take what the space's kernel takes"
                raise Refusal("signature", message)

    def built(self, space: Space, config: Config, scope: Scope) -> Built:
        """The build of a configuration, which says nothing of answers. Raises Refusal."""
        device = self._device
        task = task_of(space, scope, device.id, device.architecture, None, self._timeout)
        try:
            self._workers.built(config, task)
            built = build(device.compiler, Instance(space, config, scope))
        except WorkerDied as died:
            raise Refusal(died.reason.replace(" ", "_"), str(died)) from None
        except TrialError as error:
            raise Refusal(_code(error), _named(str(error), space)) from None
        return replace(built, instance=Instance(_bare(space), config, scope))

    def close(self) -> None:
        """End the processes that compile."""
        self._workers.stop()
        self._workers.close()


def _code(error: TrialError) -> str:
    match error:
        case ResourceError():
            return "resources"
        case GeometryError():
            return "launch"
        case LaunchError():
            return "signature"
    return "compile"


def _named(message: str, space: Space) -> str:
    """The message, with the file's name in place of its path."""
    for path in space.sources:
        message = message.replace(str(path), shown(path.name))
    return message


def _bare(space: Space) -> Space:
    """What a launch needs of a space: nothing about inputs and answers."""
    op = space.operation
    arguments = tuple(replace(argument, fill=None) for argument in op.arguments)
    bare = replace(op, arguments=arguments, reference=NoReference(), derive={}, also=None, tolerance={}, accept=())
    return replace(space, operation=bare, restrictions=(), files=(), source_note="")
