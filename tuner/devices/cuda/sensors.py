"""Clocks, throttling and energy of an NVIDIA GPU, through its management library; never sets anything."""

from __future__ import annotations

from typing import Any


class Sensors:
    """What the board of one GPU says of itself. Each reading is None where the board or driver does not give it."""

    def __init__(self, bus_id: str) -> None:
        """`bus_id` is the GPU's on PCI: NVML counts GPUs in its own order. Raises OSError where NVML is missing."""
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

    def clock_mhz(self) -> int | None:
        """The clock of the multiprocessors."""
        return self._read(self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)

    def throttled(self) -> list[str]:
        """What holds the clock down just now, such as `sw_power_cap`; idling is not counted."""
        mask = self._read(self._nvml.nvmlDeviceGetCurrentClocksEventReasons) or 0
        prefix = "nvmlClocksEventReason"
        found = {
            name.removeprefix(prefix): getattr(self._nvml, name)
            for name in dir(self._nvml)
            if name.startswith(prefix) and name.removeprefix(prefix) not in ("All", "None", "GpuIdle")
        }
        return sorted(name for name, bit in found.items() if mask & bit)

    def energy_mj(self) -> int | None:
        """Millijoules used since the driver was loaded."""
        return self._read(self._nvml.nvmlDeviceGetTotalEnergyConsumption)

    def _read(self, ask: Any, *more: Any) -> int | None:
        try:
            return int(ask(self._board, *more))
        except self._nvml.NVMLError:
            return None
