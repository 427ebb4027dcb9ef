"""The OpenCL devices of this machine, and their numbers, without opening one."""

from __future__ import annotations

import functools

import pyopencl as cl

from tuner.devices.opencl import processor_settings


def devices() -> list[cl.Device]:
    """The OpenCL devices of all platforms, in the order of their numbers."""
    try:
        return [device for platform in cl.get_platforms() for device in platform.get_devices()]
    except cl.Error:
        return []


def count() -> int:
    """The number of OpenCL devices of all platforms."""
    return len(devices())


def start_apart() -> None:
    """Start PoCL's threads, unless they have been started, each on a processor of its own.

    Otherwise the system often wakes two of them up on one processor while another one is idle, where they stay for as
    long as a short kernel takes.
    """
    with processor_settings.apart():
        count()


@functools.cache
def _numbers() -> dict[cl.Device, int]:
    return {device: number for number, device in enumerate(devices())}


def number_of(context: cl.Context) -> int:
    """The number of the device of a context, or of its first device if it has several."""
    return _numbers()[context.devices[0]]


def number_in_platform(platform: int, number: int) -> int | None:
    """The number here of a device that OpenCL numbers within its platform; None if there is none."""
    platforms = cl.get_platforms()
    if not (0 <= platform < len(platforms) and 0 <= number < len(platforms[platform].get_devices())):
        return None
    return _numbers().get(platforms[platform].get_devices()[number])


def versions(number: int) -> dict[str, str]:
    """What a device and its platform say of themselves, by the names of OpenCL's queries."""
    device = devices()[number]
    return {
        "platform_name": device.platform.name,
        "platform_version": device.platform.version,
        "device_version": device.version,
        "opencl_c_version": device.opencl_c_version,
        "driver_version": device.driver_version,
    }
