"""Reads clock, throttling and energy of an NVIDIA GPU through NVML, without changing any setting."""

from typing import Any


class NvmlSensors:
    """The sensors of one GPU. A reading is None if the board or its driver does not offer it."""

    def __init__(self, bus_id: str) -> None:
        """`bus_id` is the GPU's PCI bus id, because NVML numbers GPUs differently than CUDA. Raises OSError if NVML is
        missing."""
        try:
            import pynvml
        except ImportError as error:
            raise OSError(str(error)) from None
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
            self._board = pynvml.nvmlDeviceGetHandleByPciBusId(bus_id.encode())
        except pynvml.NVMLError as error:
            raise OSError(str(error)) from None

    def uuid(self) -> str | None:
        """The GPU's UUID, as CUDA has it: without a prefix."""
        try:
            return str(self._nvml.nvmlDeviceGetUUID(self._board)).removeprefix("GPU-")
        except self._nvml.NVMLError:
            return None

    def clock_mhz(self) -> int | None:
        """The clock rate of the multiprocessors, in MHz."""
        return self._read(self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)

    def throttled(self) -> list[str]:
        """The current reasons for a reduced clock rate, such as `SwPowerCap`, except idling."""
        mask = self._read(self._nvml.nvmlDeviceGetCurrentClocksEventReasons) or 0
        prefix = "nvmlClocksEventReason"
        bits = {
            name.removeprefix(prefix): getattr(self._nvml, name)
            for name in dir(self._nvml)
            if name.startswith(prefix) and name.removeprefix(prefix) not in ("All", "None", "GpuIdle")
        }
        return sorted(name for name, bit in bits.items() if mask & bit)

    def energy_mj(self) -> int | None:
        """The energy consumed since the driver was loaded, in mJ."""
        return self._read(self._nvml.nvmlDeviceGetTotalEnergyConsumption)

    def _read(self, function: Any, *arguments: Any) -> int | None:
        try:
            return int(function(self._board, *arguments))
        except self._nvml.NVMLError:
            return None
