"""Frozen choices: processes choose what another one has looked up, whatever the store has by then."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.own_kernels import scaled
from helpers.records import HOST_KERNEL, HOST_SPACE, host_config, record
from tuner.devices import Device
from tuner.errors import RequestError
from tuner.launch import frozen
from tuner.space.sources import rendering
from tuner.store.store import Store

OTHERS = """
import sys, time, tuner
import numpy as np
from pathlib import Path
done, arrays, kept = Path(sys.argv[1]), np.ones((3, 1, 16, 16), np.float32), tuner.dispatch("sgemm/01_host_blocked")
loaded, called = [], []
while True:
    has_ended = done.exists()
    for seen, kernel in ((loaded, tuner.load("sgemm/01_host_blocked", 16)), (called, kept.kernel(*arrays))):
        if seen[-1:] != [kernel.config["block_size"]]:
            seen.append(kernel.config["block_size"])
    if has_ended:
        break
    print(flush=True)
    time.sleep(0.01)
print(*loaded, "called", *called)
"""
TUNES = """
import tuner
tuned = tuner.tune("sgemm/01_host_blocked", 16, device="host", budget=2, fresh=True, progress=False)
print(tuned.best["block_size"])
"""


@pytest.fixture(autouse=True)
def unseen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has looked up nothing."""
    monkeypatch.setattr(frozen, "_seen", {})
    return


def stored(host: Device, block: int, size: int = 16, time_ms: float = 1.0) -> None:
    own = record(
        device=host.name,
        architecture=host.architecture,
        sizes={"M": size, "N": size, "K": size, "batch": 1},
        config=host_config(block),
        time_ms=time_ms,
        code=rendering.code(HOST_SPACE),
        conditions=dict(host.conditions.values),
    )
    Store.of(HOST_SPACE).put([own])


def test_a_process_uses_what_was_frozen_whatever_the_store_has(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "choices.json"
    stored(host, 8)
    assert tuner.load(HOST_KERNEL, 16).config == host_config(8)
    tuner.freeze(file)
    stored(host, 32)
    assert tuner.load(HOST_KERNEL, 16).config == host_config(32)
    monkeypatch.setenv("TUNER_FROZEN", str(file))
    kernel = tuner.load(HOST_KERNEL, 16)
    assert (kernel.config, kernel.match) == (host_config(8), "exact")
    assert tuner.load(HOST_KERNEL, 16, config=host_config(64)).config == host_config(64), "which is no look-up"
    for arguments in ({"size": 17}, {"size": 16, "options": {"alpha": 2.0}}, {"size": 16, "same_bits_as": "default"}):
        with pytest.raises(RequestError) as raised:
            tuner.load(HOST_KERNEL, **arguments)  # type: ignore[arg-type] # several arguments in one
        text = str(raised.value)
        assert text.startswith(f"TUNER_FROZEN={file}: has no choice for load of {HOST_KERNEL} at M={arguments['size']}")
        assert host.name in text


def test_dispatch_uses_what_was_frozen(host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "choices.json"
    arrays = np.empty((1, 16, 16), np.float32), *np.ones((2, 1, 16, 16), np.float32)
    stored(host, 8)
    assert tuner.dispatch(HOST_KERNEL).kernel(*arrays).config == host_config(8)
    tuner.freeze(file)
    stored(host, 32)
    assert tuner.dispatch(HOST_KERNEL).kernel(*arrays).config == host_config(32)
    monkeypatch.setenv("TUNER_FROZEN", str(file))
    family = tuner.dispatch(HOST_KERNEL)
    family(*arrays)
    assert np.all(arrays[0] == 16)
    assert family.kernel(*arrays).config == host_config(8)
    assert str(family.explain(*arrays)).endswith(f": block_size=8 openmp=0 (exact); as frozen in {file}")
    smaller = [np.ascontiguousarray(array[:, :8, :8]) for array in arrays]
    with pytest.raises(RequestError, match=f"has no choice for dispatch of {HOST_KERNEL} at M=8, N=8, K=8"):
        family(*smaller)
    monkeypatch.delenv("TUNER_FROZEN")
    product = tuner.matmul(*(array[0] for array in arrays[1:]))
    tuner.freeze(file)
    monkeypatch.setenv("TUNER_FROZEN", str(file))
    assert np.array_equal(tuner.matmul(*(array[0] for array in arrays[1:])), product)
    text = file.read_text()
    file.write_text(text.replace(f'"kernel": "{HOST_KERNEL}"', '"kernel": "sgemm/none"'))
    with pytest.raises(RequestError, match="sgemm/none, which was chosen, is not there"):
        tuner.dispatch(HOST_KERNEL)(*arrays)


def test_a_kernel_that_has_changed_since_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, file = scaled(tmp_path, "twice"), tmp_path / "choices.json"
    tuner.load(str(kernel), 100)
    tuner.freeze(file)
    monkeypatch.setenv("TUNER_FROZEN", str(file))
    assert tuner.load(str(kernel), 100).match == "default"
    source = kernel.with_suffix(".c")
    source.write_text(source.read_text().replace("j++", "j += 1"))
    with pytest.raises(RequestError, match=r"twice at n=100 on .* has changed since its choice was frozen"):
        tuner.load(str(kernel), 100)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        ("", "not a file that tuner.freeze wrote"),
        ("[]", "not a file that tuner.freeze wrote"),
        (json.dumps({"format": frozen.FORMAT, "version": 2}), "was written by another version"),
        (json.dumps({"format": frozen.FORMAT, "version": 1, "choices": {"a": {}}}), "not a file that tuner.freeze"),
        (json.dumps({"format": frozen.FORMAT, "version": 1, "choices": {}}), "has no choice for load of"),
    ],
)
def test_a_file_that_says_nothing_is_no_choice(
    content: str | None, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "choices.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("TUNER_FROZEN", str(file))
    with pytest.raises(RequestError, match=says):
        tuner.load(HOST_KERNEL, 16)


def test_nothing_is_frozen_where_nothing_was_looked_up(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="this process has looked up nothing yet"):
        tuner.freeze(tmp_path / "choices.json")
    tuner.load(HOST_KERNEL, 16)
    with pytest.raises(RequestError, match="cannot be written: Is a directory"):
        tuner.freeze(tmp_path)
    with pytest.raises(RequestError, match="write the path of a file"):
        tuner.freeze("")
    assert not [*tmp_path.glob("*.json")]


@pytest.mark.slow
def test_processes_choose_equally_while_another_one_tunes(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them by what was frozen. The third one looks up in the store: it changes its choice once, when the record
    is written, and the handle that it has never does."""
    stored(host, 256, time_ms=1e6)
    assert tuner.load(HOST_KERNEL, 16).config == host_config(256)
    tuner.dispatch(HOST_KERNEL).kernel(*np.ones((3, 1, 16, 16), np.float32))
    tuner.freeze(tmp_path / "choices.json")
    done = tmp_path / "done"
    command = [sys.executable, "-c", OTHERS, str(done)]
    free = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    monkeypatch.setenv("TUNER_FROZEN", str(tmp_path / "choices.json"))
    others = [*(subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)), free]
    for process in others:
        assert process.stdout is not None
        process.stdout.readline()  # it has looked up
    tuned = subprocess.run([sys.executable, "-c", TUNES], capture_output=True, text=True, check=False)
    done.touch()
    seen = [" ".join(process.communicate()[0].split()) for process in others]
    assert tuned.returncode == 0, tuned.stderr
    new = tuned.stdout.strip()
    assert seen == ["256 called 256", "256 called 256", f"256 {new} called 256"]
    monkeypatch.delenv("TUNER_FROZEN")
    after = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert after.split() == [new, "called", new], "a store that nobody changes gives all the same"
    assert new != "256"
