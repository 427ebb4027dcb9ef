"""The address of a cluster, and its engine: Dask or Ray."""

from __future__ import annotations

import re

from tuner.errors import OptionError
from tuner.quoting import quoted
from tuner.tuning.crew.dask_engine import DaskEngine
from tuner.tuning.crew.engine import Engine
from tuner.tuning.crew.ray_engine import RayEngine

PORT = 8786  # of a scheduler of Dask, unless an address has another one
RAY_PORT = 10001  # of Ray's server for clients
EXAMPLES = "dask://scheduler:8786, tls://scheduler:8786 or ray://head:10001"
_ADDRESS = re.compile(r"(dask|tcp|tls|ray)://(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::(\d{1,5}))?/?")


def checked(address: str) -> str:
    """The address as its engine writes it: `tcp://host:8786` for `dask://host`. Raises OptionError."""
    match = _ADDRESS.fullmatch(address)
    usual = RAY_PORT if address.startswith("ray:") else PORT
    if match is None or int(match[3] or usual) not in range(1, 1 << 16):
        raise OptionError(f"{quoted(address)}: not the address of a scheduler; write {EXAMPLES}", "cluster")
    protocol = "tcp" if match[1] == "dask" else match[1]
    return f"{protocol}://{match[2]}:{match[3] or usual}"


def opened(address: str) -> Engine:
    """The cluster at an address. Raises OptionError if it is none, if nothing answers, or if a package is missing."""
    written = checked(address)
    return RayEngine(address, written) if written.startswith("ray:") else DaskEngine(address, written)
