"""Preparation of the worker processes: their modules are imported before the first one is started."""

import contextlib

from tuner import paths
from tuner.children import child

WORKER = "tuner.measure.process.worker"
# What workers of all devices import, and what Kernel Tuner needs, but no package that accesses GPUs, as it does itself:
# such a package must not be imported before a fork.
PREPARED = (WORKER, "tuner.measure.workbench", "jsonschema", "packaging.requirements")


def prepare() -> None:
    """Begin to import what workers need, while this process loads its own modules and checks the request."""
    with contextlib.suppress(OSError):  # the first worker meets the same error, and reports it
        child.prepare(paths.child_environment(), PREPARED)
