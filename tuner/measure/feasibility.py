"""Check that a device can measure a problem and its objectives."""

from tuner.devices import Device
from tuner.errors import DeviceError
from tuner.measure.method import RUN_OBJECTIVES, Method
from tuner.measure.verify.input_sets import check_fits
from tuner.space.deployments import OF_GPUS, REPEATED
from tuner.space.instance import nominal
from tuner.space.model import Space
from tuner.space.scope import Scope


def check(device: Device, space: Space, scope: Scope, method: Method) -> None:
    """Raise DeviceError if the arrays do not fit the device, or if the method cannot be measured on it."""
    if method.deployment in OF_GPUS and not device.asynchronous:
        raise DeviceError(
            f"--as {method.deployment}: needs an NVIDIA GPU, beside which the host works; {device.id} is none; choose "
            "isolated, stream or cold"
        )
    if method.deployment in REPEATED and method.objectives != ("time",):
        raise DeviceError(f"--as {method.deployment}: only times are measured in this way; choose the objective time")
    check_fits(device, space.operation, nominal(space, scope))
    if method.wants_energy and (device.sensors is None or device.sensors.energy_mj() is None):
        objectives = ",".join(method.objectives)
        raise DeviceError(f"objective {objectives}: {device.name} has no energy counter; choose time")
    for objective in method.objectives:
        if objective not in RUN_OBJECTIVES and objective not in device.compiler.tells:
            available = " and ".join(device.compiler.tells) or "nothing of the kind"
            raise DeviceError(
                f"objective {objective}: the compiler for {device.id} does not report it; it reports {available}"
            )
