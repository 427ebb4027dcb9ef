"""Whether two device names are of the same board, or of boards with the same chip: drivers write names in many ways."""

from __future__ import annotations

import functools
import re

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]")
_VENDORS = {"nvidia", "amd", "intel", "corporation", "geforce", "tesla", "quadro"}
_FORMS = re.compile(r"pcie?|sxm\d?|nvl|\d+g(?:i?b)?|(?:hbm|g?ddr)\d\w*")


@functools.lru_cache(maxsize=1024)
def normalised(device: str) -> str:
    """The name of a device's board: without case, punctuation, marks ((R), (TM)), vendors and brands (NVIDIA, GeForce).

    Drivers write these in different ways. All other words distinguish boards, whose clocks, memory or multiprocessors
    differ: the form factor and memory (SXM4, PCIe, NVL, 80GB, HBM3e), Ti, SUPER, Ada Generation, Laptop GPU, Max-Q, a
    MIG slice (`1g.10gb`), a virtual GPU's profile (`40C`), the number of a host's cores.
    """
    return " ".join(_words(device))


@functools.lru_cache(maxsize=1024)
def chip(device: str) -> str:
    """The name of a board without form factor and memory. H200 NVL and H200 have the same chip, and so have A100 80GB
    PCIe and A100-SXM4-40GB. Boards with the same chip are more similar than other boards of the architecture."""
    words = _words(device)
    return " ".join([word for word in words if not _FORMS.fullmatch(word)] or words)


def names_vendor(device: str) -> bool:
    """Whether a name begins with a vendor or brand, so that it is a whole name, not a part of one."""
    return device.casefold().split()[:1] != _words(device)[:1]


def _words(device: str) -> list[str]:
    words = re.findall(r"[^\s,;:()/_-]+", _MARKS.sub(" ", device.casefold()))
    return [word for word in words if word not in _VENDORS] or words
