"""The names of devices that scripts of Kernel Tuner number."""

from __future__ import annotations

from tuner.door.calls.call import Call
from tuner.errors import RequestError


def device_name(call: Call) -> str:
    """The name of the device that `device` and `platform` of a call number. Raises RequestError if there is none."""
    if call.language == "c":
        return "host:0"
    if call.language == "cuda":
        return f"cuda:{call.device}"
    if not (call.device or call.platform):
        return "opencl:0"
    from tuner.devices.opencl.device import number_in_platform

    number = number_in_platform(call.platform, call.device)
    if number is None:
        raise RequestError(
            f"platform {call.platform}, device {call.device}: there is no such OpenCL device; see `tune devices`"
        )
    return f"opencl:{number}"
