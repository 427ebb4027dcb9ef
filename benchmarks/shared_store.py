"""How large the indexes of a shared store with many devices are, and what pulls from it read.

    python benchmarks/shared_store.py --devices 1000 --kernels 100 --sizes 5

A record and a log of each size are those that a search of a shipped kernel would leave: the records of NVIDIA H200 in
`results`, and logs of the recording in `results/recordings`. All devices are in the indexes. Only the files of the
devices that a machine asks for exist, because nobody reads the others. Pulls are real, of one machine, and read a
folder. They count bytes; no time of this benchmark is one of a network.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tuner.catalog import catalog
from tuner.exchange.sharing import index, pulled
from tuner.exchange.sharing.index import DeviceIndex, KernelFiles, SharedDevice, SharedFile, SharedStore
from tuner.space.sources.rendering import Version
from tuner.store import record_file
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning.recordings import logs, recording
from tuner.tuning.recordings.logs import LoggedProblem
from tuner.tuning.recordings.recording import Entry

KERNEL, RECORDING = "sgemm/09_coarsened_2d", "results/recordings/09_coarsened_2d-4096.json.gz"
LIKE = 4  # devices of the chip of each, with other memory
SEARCHED = 200  # configurations that a search measures


def contents(sizes: int, device: str, draws: random.Random) -> tuple[bytes, list[bytes]]:
    """A file of records with as many sizes, and their logs, as a device of this name would have them."""
    space = catalog.load(KERNEL)
    version = Version.of(space)
    (pattern, *_) = [r for r in Store.of(space).records if r.is_of(version) and r.is_plain and r.is_verified]
    measured = [*recording.read(Path(RECORDING)).configs()]
    records, made = [], []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(sizes):
            size = dict.fromkeys(pattern.sizes, 1024 + 512 * number) | {"batch": 1}
            record = replace(pattern, device=device, sizes=size, signature=version.signature, code=version.code)
            record = replace(record, time_ms=pattern.time_ms * draws.uniform(0.5, 2.0))
            records.append(record)
            searched = [
                (config, Entry(entry.time_ms and entry.time_ms * draws.uniform(0.9, 1.1), failure=entry.failure))
                for config, entry in draws.sample(measured, SEARCHED)
            ]
            problem = LoggedProblem.of(KERNEL, record)
            made.append(logs.keep(problem, space, searched, Path(folder)).read_bytes())
    lines = [record_file.header(KERNEL), *map(Record.to_line, records), ""]
    return "\n".join(lines).encode(), made


def shared_file(data: bytes, suffix: str) -> SharedFile:
    """The entry of a file with this content."""
    return SharedFile(hashlib.sha256(data).hexdigest(), len(data), suffix)


def invented(like: SharedFile, draws: random.Random) -> SharedFile:
    """A file that nobody reads: as large as another, with a checksum of its own."""
    return replace(like, sha256=f"{draws.getrandbits(256):064x}")


def put(root: Path, device: SharedDevice, data: bytes, suffix: str) -> SharedFile:
    """Write a file of a device, and give its entry."""
    file = shared_file(data, suffix)
    (root / device.folder).mkdir(exist_ok=True)
    (root / device.path(file)).write_bytes(data)
    return file


def names(count: int) -> Iterator[str]:
    """Names of boards, LIKE of each chip."""
    memories = [f"{24 * (1 + number)}GB" for number in range(LIKE)]
    return itertools.islice((f"NVIDIA X{chip} {memory}" for chip in itertools.count(100) for memory in memories), count)


def built(root: Path, count: int, codes: Mapping[str, str], sizes: int, draws: random.Random) -> list[SharedDevice]:
    """A shared store with as many devices, and these kernels by code. The devices, of which the first ones have files:
    each kernel has files of its own there, which say that they are of KERNEL."""
    records, made = contents(sizes, "NVIDIA X100 24GB", draws)
    patterns = shared_file(records, index.RECORDS), [shared_file(log, index.LOG) for log in made]
    devices = []
    for number, name in enumerate(names(count)):
        device = SharedDevice("cuda", name, "sm_90a", SharedFile("", 0, index.INDEX))
        kernels = []
        for code, kernel in codes.items():
            if number <= pulled.OTHERS and kernel == KERNEL:
                data, own = contents(sizes, name, draws)
                files = put(root, device, data, index.RECORDS), [put(root, device, each, index.LOG) for each in own]
            else:
                files = invented(patterns[0], draws), [invented(each, draws) for each in patterns[1]]
            kernels.append(KernelFiles(code, kernel, files[0], tuple(files[1])))
        devices.append(replace(device, index=put(root, device, DeviceIndex(kernels).packed(), index.INDEX)))
    (root / index.FILE).write_bytes(SharedStore(tuple(devices)).packed())
    return devices


def main() -> None:
    """Build the store, pull from it, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1000)
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--sizes", type=int, default=5, help="records of each kernel, each with its log")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    draws = random.Random(0)  # noqa: S311
    codes = {Version.of(catalog.load(KERNEL)).code: KERNEL}
    while len(codes) < given.kernels:
        codes[f"{draws.getrandbits(128):032x}"] = f"family/kernel_{len(codes)}"
    with tempfile.TemporaryDirectory() as folder:
        root, results = Path(folder) / "shared", Path(folder) / "results"
        root.mkdir()
        devices = built(root, given.devices, codes, given.sizes, draws)
        first = (root / index.FILE).stat().st_size
        own = devices[0].index.bytes
        begin = time.process_time()
        one = pulled.pull(str(root), [KERNEL], devices[0].device, results)
        seconds = time.process_time() - begin
        again = pulled.pull(str(root), [KERNEL], devices[0].device, results)
        per_kernel = one.bytes - again.bytes
        whole = first + own + given.kernels * per_kernel
        figures = {
            "devices": given.devices,
            "kernels": given.kernels,
            "sizes": given.sizes,
            "bytes of index.json": first,
            "bytes of a device's index": own,
            "bytes of a kernel's records and logs on a device": per_kernel,
            "bytes of a pull of one kernel": one.bytes,
            "bytes of a pull when nothing is new": again.bytes,
            "bytes of a first pull of all kernels": whole,
            f"the same with the {pulled.OTHERS} devices like it": first + (1 + pulled.OTHERS) * (whole - first),
            f"when nothing is new, with these {pulled.OTHERS} devices": first + (1 + pulled.OTHERS) * own,
            "bytes of the whole store": first + given.devices * (own + given.kernels * per_kernel),
            "files of the whole store": 1 + given.devices * (1 + given.kernels * (1 + given.sizes)),
            "processor time of a pull of one kernel, s": round(seconds, 3),
        }
    if given.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, value in figures.items():
            print(f"{name:50} {value:>16,}")


if __name__ == "__main__":
    main()
