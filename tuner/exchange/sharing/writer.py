"""Writes the files of a shared store into its folder, and removes those that are superseded."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

from tuner import paths
from tuner.errors import RequestError
from tuner.exchange.sharing import index
from tuner.exchange.sharing.files import checked
from tuner.exchange.sharing.folder import SharedFolder
from tuner.exchange.sharing.index import DeviceIndex, SharedDevice, SharedFile, SharedStore
from tuner.quoting import shown

LOCK = "index.lock"
GRACE_SECONDS = 24 * 3600.0  # how long a file that no index names stays, for readers of the previous index


def present(folder: Path, source: SharedFolder) -> Sequence[SharedDevice]:
    """The devices of a shared store, none in an empty folder.

    Raises RequestError if the folder holds other things and no index, or an index that cannot be read.
    """
    file = folder / index.FILE
    check_no_link(file)
    if not file.exists():
        check_empty(folder)
        return ()
    return SharedStore.parse(source.read(index.FILE, index.MOST_BYTES[index.INDEX]), f"{source}/{index.FILE}").devices


def check_before_lock(folder: Path) -> None:
    """Raise RequestError if the folder holds other things and no index, before a lock is put among them."""
    try:
        check_empty(folder)
    except RequestError:
        if not (folder / index.FILE).exists() and not (folder / LOCK).exists():  # or else another process is pushing
            raise


def check_empty(folder: Path) -> None:
    """Raise RequestError if the folder, which has no index, holds other things."""
    others = [name for name in os.listdir(folder) if not name.startswith(".") and name != LOCK]
    if others:
        raise RequestError(
            f"{shown(folder)}: is neither empty nor a shared store: it has {shown(others[0])} and no index.json; "
            "name another folder"
        )


def check_no_link(path: Path) -> None:
    """Raise RequestError for a link, through which somebody could make this user write elsewhere."""
    if path.is_symlink():
        raise RequestError(f"{shown(path)}: is a link; nothing is written through links; remove it")


def put(folder: Path, device: SharedDevice, data: bytes, suffix: str) -> SharedFile:
    """Write a file of a device, unless it is there. Raises RequestError if it is larger than a reader allows."""
    file = SharedFile(hashlib.sha256(data).hexdigest(), len(data), suffix)
    path = folder / device.path(file)
    if file.bytes > index.MOST_BYTES[suffix]:
        raise RequestError(
            f"{shown(path)}: would have {file.bytes} bytes; at most {index.MOST_BYTES[suffix]} are allowed for "
            f"*{suffix}; push to another folder"
        )
    check_no_link(path)
    paths.make(path.parent, shared=True)
    if path.is_file() and path.read_bytes() == data:
        os.utime(path)  # it is in use again
    else:
        paths.replace(path, data)
    return file


def swept(folder: Path, source: SharedFolder, store: SharedStore) -> tuple[int, int]:
    """Remove the files of earlier pushes that no index names, and return the number of those that remain, with the
    bytes of all."""
    named: dict[Path, int] = {folder / index.FILE: len(store.packed())}
    complete = True
    for device in store.devices:
        named[folder / device.path(device.index)] = device.index.bytes
        try:
            kernels = DeviceIndex.parse(checked(source, device.path(device.index), device.index), device.folder).kernels
        except RequestError:
            complete = False  # nothing is removed while an index cannot be read
            continue
        for each in kernels:
            for file in filter(None, (each.records, *each.logs)):
                named[folder / device.path(file)] = file.bytes
    for sub in folder.iterdir() if complete else ():
        if index.FOLDER.fullmatch(sub.name) and sub.is_dir() and not sub.is_symlink():
            for path in sub.iterdir():
                is_old = index.NAME.fullmatch(path.name) and time.time() - path.lstat().st_mtime > GRACE_SECONDS
                if is_old and path not in named:
                    path.unlink(missing_ok=True)
    return len(named), sum(named.values())
