"""Write the time models that ship with the results: results/FAMILY/DEVICE.model, from the time tables and records.

    python docs/hooks/models.py                       writes the models that do not match the tables
    python docs/hooks/models.py sgemm --all           writes the models of a family, whether they match or not
    python docs/hooks/models.py --ask cuda            asks this machine's cuBLASLt first, which needs an NVIDIA GPU
    python docs/hooks/models.py --ask cuda --only-ask     writes no models: another machine can, with --all

A model is trained on the times of a device in a family's tables; half a minute each. It needs what cuBLASLt's
heuristics say at the measured sizes, which `--ask` writes to results/FAMILY/CHIP.tiles. Without these, a model
predicts the library's times from the sizes alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from tuner import devices
from tuner.catalog import kernel_lists
from tuner.devices.conditions import DEFAULT
from tuner.devices.cuda.blas import cublas_tiles
from tuner.families import family, library_answers, model_files
from tuner.families.choice import FamilyTable
from tuner.families.family import Family
from tuner.space.scope import Scope
from tuner.store import time_tables
from tuner.store.lookup import Query
from tuner.store.time_table import TableHead

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
CACHE = 50 << 20  # bytes of the last-level cache of an H100 and an H200


class Model(NamedTuple):
    """A model that ships: a family, a device by name, and types; `head` is one of the tables."""

    family: Family
    head: TableHead

    @property
    def device(self) -> Any:
        """The device, as far as a choice asks."""
        head, backend = self.head, devices.BACKENDS[self.head.kind]
        return SimpleNamespace(
            id=f"{head.kind}:0", kind=head.kind, language=backend.language, name=head.device, units=head.units,
            architecture=head.architecture, limits=backend.widest(head.architecture), last_cache=CACHE,
            on_processor=False, conditions=DEFAULT, tiles=lambda product: None, host_times=lambda: None,
        )  # fmt: skip

    @property
    def scope(self) -> Scope:
        """The problem, at any size."""
        op, device = self.family.operation, self.device
        return op.scope(dict.fromkeys(op.sizes, 1), dict(op.options), device.language, device.limits, self.head.types)

    @property
    def queries(self) -> list[Query]:
        """The look-up of each kernel."""
        spaces = [space for space in self.family.spaces if self.device.language in space.languages]
        return [Query.of(space, self.scope, self.device) for space in spaces]

    @property
    def path(self) -> Path:
        """The file."""
        path = model_files.shipped_path(self.queries, RESULTS)
        assert path is not None
        return path

    def served(self) -> list[time_tables.StoredTable]:
        """The tables of the device that are of the kernels' current code."""
        found = []
        for query in self.queries:
            tables, _ = time_tables.stored([RESULTS / f"{query.space.name}.jsonl"])
            found += [table for table in tables if table.head.serves(query)]
        return found

    def matches(self) -> bool:
        """Whether the file is of the tables as they are."""
        problem = model_files.problem_of(self.queries[0], self.head.units)
        try:
            found = model_files.ModelFile.of(self.path.read_bytes(), problem)
        except (FileNotFoundError, ValueError):  # ValueError: damaged, or of another version
            return False
        return found is not None and {table.digest for table in self.served()} <= found.tables

    def write(self, ask: Any, trains: bool = True) -> None:
        """Ask the library, if a device is given, then train the model and write its file if it `trains`."""
        start = time.perf_counter()
        if ask is not None:
            path = library_answers.path_of(self.queries, RESULTS)
            assert path is not None
            own = FamilyTable(self.family.spaces, self.device, self.scope, True, RESULTS).sizes
            sizes = sorted(own | library_answers.read(path).tiles.keys())  # these may be of a device with the same chip
            count = library_answers.ask(self.queries, sizes, ask, cublas_tiles.version(), path)
            seconds = time.perf_counter() - start
            print(f"{path.relative_to(ROOT)}: {count} of {len(sizes)} sizes, {seconds:.1f} s")
        if not trains:
            return
        data = FamilyTable(self.family.spaces, self.device, self.scope, True, RESULTS).trained()
        if data is not None:
            self.path.write_bytes(data)
        print(f"{self.path.relative_to(ROOT)}: {len(data or b''):,} bytes, {time.perf_counter() - start:.1f} s")


def models(names: list[str]) -> Iterator[Model]:
    """A model for each family, device and types with time tables in the results."""
    families = names or sorted({name.partition("/")[0] for name in kernel_lists.names() if "/" in name})
    for name in families:
        if not any((RESULTS / name).glob(f"*{time_tables.SUFFIX}")):
            continue
        found, seen = family.find(name), dict[tuple[str, str, tuple[tuple[str, str], ...]], TableHead]()
        for space in found.spaces:
            for table in time_tables.stored([RESULTS / f"{space.name}.jsonl"])[0]:
                head = table.head
                if not head.conditions:
                    seen.setdefault((head.kind, head.device, _items(head.types)), head)
        for head in seen.values():
            model = Model(found, head)
            if model.served():
                yield model


def _items(types: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(types.items()))


def main() -> None:
    """Write the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--all", action="store_true", help="also the models that match the tables")
    parser.add_argument("--ask", metavar="DEVICE", help="device whose cuBLASLt is asked")
    parser.add_argument("--only-ask", action="store_true", help="write what it says, and no models")
    options = parser.parse_args()
    ask = devices.shared(options.ask) if options.ask else None
    for model in models(options.families):
        if options.all or ask is not None or not model.matches():
            model.write(ask, trains=not options.only_ask)


if __name__ == "__main__":
    main()
