"""The backend for this machine's CPU, which uses a C compiler and OpenMP."""

from tuner.devices.backend import Backend, deferred

BACKEND = Backend(
    kind="host",
    language="c",
    count=deferred(f"{__name__}.compiler", "count"),
    open=deferred(f"{__name__}.device", "HostDevice"),
    compiler=deferred(f"{__name__}.compiler", "default"),
    surrounding=deferred(f"{__name__}.compiler", "surrounding"),
    needs="gcc",
    remedy="install a C compiler, or set CC to one",
    may_be_processor=True,
)
