"""This machine's processor: a C compiler and OpenMP."""

from __future__ import annotations

from tuner.devices.backend import Backend
from tuner.devices.base import Device
from tuner.devices.compiler import Compiler


def _count() -> int:
    from tuner.devices.host import compiler

    return compiler.count()


def _open(number: int) -> Device:
    from tuner.devices.host.device import HostDevice

    return HostDevice(number)


def _compiler(architecture: str) -> Compiler:
    from tuner.devices.host.compiler import HostCompiler

    return HostCompiler.default()


BACKEND = Backend(
    kind="host",
    language="c",
    count=_count,
    open=_open,
    compiler=_compiler,
    needs="gcc",
    remedy="install a C compiler, or name one by CC",
    may_be_processor=True,
)
