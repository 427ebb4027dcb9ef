"""A trained time model as data, and its form in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.classes import cached_property, dataclass
from tuner.errors import ExpressionError
from tuner.prediction import array_file
from tuner.prediction.amounts import Array, Mask
from tuner.prediction.array_file import ArrayFile
from tuner.prediction.learnt import Learnt
from tuner.space.config import Config

if TYPE_CHECKING:
    from tuner.prediction.grid_table import GridTable
    from tuner.prediction.grids import Sizes

FORMAT, VERSION = "tuner model", 5
# The levels to which a file rounds features and weights, over the range of their column. The weights of many sizes are
# added up: with 4,095 levels, the library's predicted times were up to 2 % shorter.
LEVELS = {"own": 4095, "weights": 65535}
ERROR_BITS = 7  # of a squared error as float16 that a file leaves out: it is at most 6 % off, and takes one byte


@dataclass(frozen=True)
class Trained:
    """The state of a trained time model, without the space files of its kernels.

    `entries` are the kernel, by a number, and the configuration of each entry; the kernel of a routine of the library,
    which come last, is None. `routines` is the form of `LibraryRoutines.to_json`. `sizes` are those of `learnt.shared`.
    `units` and `cache` are as in `TimeModel`.
    """

    entries: tuple[tuple[int | None, Config], ...]
    grids: GridTable
    routines: Mapping[str, Any]
    sizes: tuple[Sizes, ...]
    learnt: Learnt
    units: int
    cache: int

    @property
    def is_kernel(self) -> Mask:
        """Whether each entry is a configuration of a kernel."""
        return np.array([kernel is not None for kernel, _ in self.entries], bool)

    def nearest(self, sizes: Sizes) -> float:
        """The Euclidean distance between the logarithms of these sizes and those of the nearest training size."""
        differences = self._logarithms - np.log(np.array(sizes, float))
        return float(np.sqrt((differences**2).sum(axis=1).min(initial=np.inf)))

    @cached_property
    def _logarithms(self) -> Array:
        logarithms: Array = np.log(np.array(self.sizes, float).reshape(len(self.sizes), -1))
        return logarithms

    def measured_at(self, entry: int) -> list[Sizes]:
        """The training sizes of an entry."""
        end = int(self.learnt.counts[: entry + 1].sum())
        return [self.sizes[row] for row in self.learnt.sizes[end - int(self.learnt.counts[entry]) : end].tolist()]

    def restricted(self, keep: Sequence[bool]) -> Trained:
        """The state with only those entries that are marked."""
        if all(keep):
            return self
        kept, learnt = np.flatnonzero(keep), self.learnt
        numbers = {int(old): new for new, old in enumerate(kept)}
        pairs = np.repeat(np.array(keep, bool), learnt.counts)
        has_library = any(self.entries[each][0] is None for each in kept)
        of_kept = [(grid, numbers[owner]) for grid, owner in zip(*self.grids, strict=True) if owner in numbers]
        return replace(
            self,
            entries=tuple(self.entries[each] for each in kept),
            routines=self.routines if has_library else {**self.routines, "count": 0},
            grids=self.grids._replace(grids=[grid for grid, _ in of_kept], owners=[owner for _, owner in of_kept]),
            learnt=learnt._replace(
                traits=learnt.traits[:, kept], factors=learnt.factors[kept], unseen=learnt.unseen[kept],
                counts=learnt.counts[kept], sizes=learnt.sizes[pairs], own=learnt.own[pairs],
                weights=learnt.weights[pairs], errors=learnt.errors[pairs],
            ),
        )  # fmt: skip

    def to_bytes(self, about: Mapping[str, Any]) -> bytes:
        """The bytes of a file. `about` is what the file says of the model besides, as JSON can hold it."""
        used, rows = np.unique(self.learnt.sizes, return_inverse=True)
        sizes = np.array([self.sizes[row] for row in used], np.int64).reshape(len(used), -1)
        arrays, ranges = dict[str, np.ndarray[Any, Any]](), dict[str, Any]()
        for name, array in self.learnt._asdict().items():
            arrays[name] = array
            if name in LEVELS:
                arrays[name], ranges[name] = _rounded(array, LEVELS[name])
        # The first columns are the logarithms of the sizes. The values of one column compress well side by side.
        arrays["shared"] = self.learnt.shared[used, sizes.shape[1] :].astype(np.float32).T
        arrays["sizes"] = np.diff(rows.astype(np.uint16), prepend=np.uint16(0))
        arrays["factors"] = self.learnt.factors.astype(np.float32)
        of_errors = self.learnt.errors.astype(np.float16).view(np.uint16) + (1 << ERROR_BITS - 1)
        arrays["errors"] = (of_errors >> ERROR_BITS).astype(np.uint8)
        arrays["of_sizes"] = sizes.T
        header = {
            **about,
            "kernels_of_entries": [kernel for kernel, _ in self.entries],
            "configs": [dict(config) for _, config in self.entries],
            **self.grids.to_json(),
            "routines": dict(self.routines),
            "units": self.units,
            "cache": self.cache,
            "ranges": ranges,
        }
        return array_file.packed(FORMAT, VERSION, header, [arrays])

    @staticmethod
    def of_file(file: ArrayFile) -> Trained:
        """The state in a file. Raises ValueError if it is damaged."""
        from tuner.prediction.grid_table import GridTable

        header, arrays = file.header, file.arrays(0)
        try:
            for name in LEVELS:
                low, step = (np.array(each, np.float32) for each in header["ranges"][name])
                arrays[name] = arrays[name] * step + low
            of_errors = arrays["errors"].astype(np.uint16) << ERROR_BITS
            arrays["errors"] = of_errors.view(np.float16).astype(np.float32)
            sizes = arrays.pop("of_sizes").T
            arrays["shared"] = np.concatenate([np.log(sizes), arrays["shared"].T], axis=1, dtype=np.float32)
            arrays["sizes"] = arrays["sizes"].cumsum(dtype=np.uint16).astype(np.intp)
            return Trained(
                tuple(zip(header["kernels_of_entries"], header["configs"], strict=True)),
                GridTable.from_json(header),
                header["routines"],
                tuple(map(tuple, sizes.tolist())),
                Learnt(*(arrays[field] for field in Learnt._fields)),
                int(header["units"]),
                int(header["cache"]),
            )
        except (LookupError, TypeError, ExpressionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None


def _rounded(array: np.ndarray[Any, Any], levels: int) -> tuple[np.ndarray[Any, Any], Any]:
    """An array in `levels` steps between the least and the largest value of each column, and the least and the step."""
    low = array.min(axis=0, initial=np.inf) if len(array) else np.zeros(array.shape[1:])
    step = (array.max(axis=0, initial=-np.inf) - low) / levels if len(array) else np.ones(array.shape[1:])
    step = np.where(step > 0, step, 1.0)
    return np.round((array - low) / step).astype(np.uint16), [low.tolist(), step.tolist()]
