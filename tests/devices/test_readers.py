"""What a launch reads of tensors: a stand-in for torch, which is not installed everywhere, has what is read."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers import spaces
from tuner.catalog import catalog
from tuner.devices.arguments import ArraySpec
from tuner.devices.cuda import device as device_module
from tuner.devices.cuda.arrays import CurrentStreams, PlacedArray, Readers
from tuner.errors import ArgumentError
from tuner.families.matrices import plans
from tuner.space import operation
from tuner.space.chosen_types import dtype
from tuner.space.scope import Limits


class Tensor:
    """A tensor on a GPU, as far as a launch reads it."""

    def __init__(self, address: int, shape: tuple[int, ...] = (1, 16, 16), **facts: Any) -> None:
        self._address, self.shape, self._contiguous, self._number = address, shape, True, 0
        self.dtype, self.is_cuda, self.requires_grad = "float32", True, False
        vars(self).update(facts)

    def is_contiguous(self) -> bool:
        return self._contiguous

    def get_device(self) -> int:
        return self._number

    def data_ptr(self) -> int:
        if self._address < 0:
            raise RuntimeError("no memory of its own")
        return self._address


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    """Of C, A and B at 16; what is not read fast is `slow`."""
    torch: Any = ModuleType("torch")
    torch.Tensor, torch.float32 = Tensor, "float32"
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda number: 7 + number)
    monkeypatch.setitem(sys.modules, "torch", torch)
    space = catalog.load("sgemm/03_naive")
    scope = spaces.on(space, {"M": 16, "N": 16, "K": 16, "batch": 1}, Limits())
    specs = [ArraySpec.of(a, operation.shape(a, scope), dtype(a, scope), 1) for a in space.operation.arrays]
    return Readers(specs, 0, None, lambda arrays: [-1])


def test_tensors_that_fit_give_their_addresses_and_the_current_stream(readers: Readers) -> None:
    read, current = readers[Tensor]
    tensors = [Tensor(256), Tensor(512), Tensor(1024)]
    assert (read(tensors), current(tensors[0])) == ([256, 512, 1024], 7)


@pytest.mark.parametrize(
    "facts",
    [
        {"shape": (1, 16, 8)}, {"dtype": "float16"}, {"_contiguous": False}, {"is_cuda": False}, {"_number": 1},
        {"requires_grad": True}, {"_address": -1},
    ],
)  # fmt: skip
def test_a_tensor_that_does_not_fit_or_has_no_memory_is_read_slowly(readers: Readers, facts: dict[str, Any]) -> None:
    read, _ = readers[Tensor]
    for at in range(3):
        tensors = [Tensor(256), Tensor(512), Tensor(1024)]
        vars(tensors[at]).update(facts)
        assert read(tensors) == [-1]
    assert read([Tensor(256), Tensor(512)]) == read([Tensor(256), Tensor(512), np.zeros(1)]) == [-1]


def test_a_product_of_known_layouts_launches_by_addresses_alone(readers: Readers) -> None:
    read, current = readers[PlacedArray]
    launched: list[tuple[Any, ...]] = []

    def kernel(*arrays: Any, **options: float) -> None:
        launched.append((read(arrays), current(arrays[0]), options))

    multiply = plans.direct(kernel, readers[Tensor][1])
    a, b, out = Tensor(512, (16, 16)), Tensor(1024, (16, 16)), Tensor(256, (16, 16))
    multiply(a, b, out, 1.0, 0.0)
    multiply(a, b, out, 2.0, 0.0)
    assert launched == [([256, 512, 1024], 7, {}), ([256, 512, 1024], 7, {"alpha": 2.0, "beta": 0.0})]


def test_a_stream_that_no_graph_captures_has_a_lane_without_asking_the_driver(
    readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def stream_id(context: object, stream: int) -> int:
        asked.append(stream)
        return 100 + stream

    monkeypatch.setattr(device_module, "stream_id", stream_id)
    device: Any = SimpleNamespace(_streams=CurrentStreams(0), _context=None)

    def lane(stream: Any, array: Any) -> object:
        return device_module.CudaDevice.lane(device, stream, array)

    first = lane(None, PlacedArray(4096, 0))
    assert {lane(each, PlacedArray(4096, 5)) for each in (0, 1, SimpleNamespace(cuda_stream=0))} == {first}
    assert not asked
    assert [lane(None, Tensor(256)), lane(None, PlacedArray(4096, 2)), lane(9, Tensor(256))] == [107, 102, 109]
    assert asked == [7, 2, 9]
    with pytest.raises(ArgumentError, match="stream: of type str"):
        lane("default", Tensor(256))
