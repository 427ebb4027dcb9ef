"""Our own kernels on a device: compiled once, loaded once for each open device, and bound to arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tuner.devices.work import Function, Work
from tuner.space.sources.source import Source
from tuner.space.step import Geometry

if TYPE_CHECKING:
    from tuner.devices.base import Device

Call = Callable[[], None]
THREADS, MOST_BLOCKS = 256, 2048
BENCH = "bench_kernels.cu"  # in this folder
_C_OPTIONS = ("-O2", "-ffp-contract=off")  # -O3 makes the code larger, not faster

# The programs of each open device, by source text: an OpenCL driver takes about 0.1 s to load one from its source.
_loaded: WeakKeyDictionary[Device, dict[str, Any]] = WeakKeyDictionary()


def common_source(language: str) -> Source:
    """What every workbench needs first of the kernels for arrays of any type, which take longest to compile."""
    return _source(_text([BENCH]), "restore", language)


def _text(files: Sequence[str]) -> str:
    return "".join(Path(__file__).with_name(file).read_text(encoding="utf-8") for file in files)


def _source(text: str, kernel: str, language: str) -> Source:
    return Source(text, (kernel,), _C_OPTIONS if language == "c" else ())


class DeviceKernels:
    """The kernels of one source text. Macros before the text select kernels and element types."""

    def __init__(self, device: Device, *files: str) -> None:
        """`files` in the folder of this module are concatenated to the source text."""
        self.device = device
        self._text = _text(files)
        self._programs = _loaded.setdefault(device, {})
        self._functions: dict[tuple[str, str], Function] = {}

    def bind(self, kernel: str, threads: int, arguments: Sequence[object], macros: str = "") -> Call:
        """Bind a kernel to its arguments, with about `threads` threads and at most MOST_BLOCKS blocks."""
        geometry = Geometry((min(MOST_BLOCKS, max(1, -(-threads // THREADS))), 1, 1), (THREADS, 1, 1), 0)
        function = self._functions.get((kernel, macros))
        if function is None:
            source = _source(macros + self._text, kernel, self.device.language)
            if source.text not in self._programs:
                self._programs[source.text] = self.device.load(self.device.build(source), source)
            program = self._programs[source.text]
            function = self._functions[kernel, macros] = self.device.function(program, kernel, geometry)
        return self.device.bind(Work.of(replace(function, geometry=geometry), arguments))
