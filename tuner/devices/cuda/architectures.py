"""Compute capabilities and limits of NVIDIA's architectures, by names such as sm_90a."""

import re

from tuner.space.scope import Limits

# Maximum shared memory per block in KiB, by compute capability: CUDA C++ Programming Guide, "Technical Specifications
# per Compute Capability".
_SHARED_KIB = {70: 96, 72: 96, 75: 64, 80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227}
_SHARED_KIB |= {120: 99, 121: 99}


def compute_capability(architecture: str) -> tuple[int, int] | None:
    """Major and minor compute capability, (9, 0) for sm_90a. None if `architecture` does not have this form."""
    parts = re.fullmatch(r"sm_([1-9]\d?)(\d)[af]?", architecture)
    return (int(parts[1]), int(parts[2])) if parts else None


def is_architecture(text: str) -> bool:
    """Whether `text` has the form of an architecture, such as sm_80 or sm_90a."""
    return compute_capability(text) is not None


def shared_memory(architecture: str) -> int | None:
    """The bytes of shared memory that a block may have at most; None if unknown."""
    major, minor = compute_capability(architecture) or (0, 0)
    kib = _SHARED_KIB.get(10 * major + minor)
    return kib and kib * 1024


def limits_of(architecture: str) -> Limits:
    """The limits of an absent GPU, as far as its compute capability determines them."""
    capability = compute_capability(architecture)
    if capability is None:
        return Limits()
    shared = _SHARED_KIB.get(10 * capability[0] + capability[1], 48) * 1024
    return Limits(max_shared_memory=shared, compute_capability=capability[0] + capability[1] / 10)


def widest(architecture: str) -> Limits:
    """Limits that no GPU of the architecture exceeds; if the architecture is unknown, limits that no GPU exceeds."""
    if compute_capability(architecture) is not None:
        return limits_of(architecture)
    return Limits(max_shared_memory=max(_SHARED_KIB.values()) * 1024, compute_capability=max(_SHARED_KIB) / 10)
