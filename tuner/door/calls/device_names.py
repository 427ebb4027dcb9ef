"""The names of devices that scripts of Kernel Tuner number."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tuner.devices import BACKENDS
from tuner.door.calls.call import Call
from tuner.errors import DeviceError, RequestError


def device_name(call: Call) -> str:
    """The name of the device that `device` and `platform` of a call number. Raises RequestError if there is none."""
    if call.language == "c":
        return "host:0"
    if call.language == "cuda":
        return f"cuda:{call.device}"
    if not (call.device or call.platform):
        return "opencl:0"
    from tuner.devices.opencl.platforms import number_in_platform

    number = number_in_platform(call.platform, call.device)
    if number is None:
        raise RequestError(
            f"platform {call.platform}, device {call.device}: there is no such OpenCL device; see `tune devices`"
        )
    return f"opencl:{number}"


@contextlib.contextmanager
def advised(call: Call) -> Iterator[None]:
    """Run a call so that DeviceError of a machine without a driver says what a script can do, not a command."""
    try:
        yield
    except DeviceError as error:
        lacking = BACKENDS["cuda"].lacks() if call.language == "cuda" else None
        if lacking is None or lacking not in str(error):
            raise
        raise DeviceError(
            f"device 'cuda': {lacking}, and the script's kernel is in CUDA; run the script on a machine with an NVIDIA "
            "GPU, or write a space file of it here: `tune new --from-script SCRIPT`"
        ) from None
