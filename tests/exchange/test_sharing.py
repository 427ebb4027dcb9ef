"""A shared store is static files: what others push is pulled as a claim, over HTTPS or from a folder."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import os
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from helpers.own_kernels import scaled
from helpers.processes import Tune
from helpers.records import KERNEL, RTX, SPACE, at, config, imported, stored
from helpers.web import Handler, Proxy, Server, running, served
from tuner.catalog import catalog
from tuner.exchange.sharing import web
from tuner.space.sources import rendering
from tuner.space.values.bit_classes import DIGITS
from tuner.store.record import Record
from tuner.store.store import Store
from tuner.tuning.recordings import logs, recording
from tuner.tuning.recordings.logs import LoggedProblem
from tuner.tuning.recordings.recording import Entry

CODE = rendering.code(SPACE)


def rtx(size: int, time_ms: float, **more: Any) -> Record:
    return at(size, RTX, time_ms=time_ms, **{"code": CODE, **more})


def logged(folder: Path, record: Record, times: dict[int, float]) -> Path:
    """The store in `folder`, with a log of a record's problem: these times in ms by tile."""
    measured = [(config(tile), Entry(time_ms)) for tile, time_ms in times.items()]
    logs.keep(LoggedProblem.of(KERNEL, record), SPACE, measured, folder)
    return folder


def held(folder: Path) -> dict[int, Record]:
    return {r.sizes["M"]: r for r in Store(KERNEL, folder).records if r.device == RTX}


def log_in(folder: Path) -> recording.Recording:
    (path,) = (folder / "recordings").glob("*.json.gz")
    return recording.read(path)


def device_folder(shared: Path) -> Path:
    (folder,) = (path for path in shared.iterdir() if path.is_dir())
    return folder


def rewritten(shared: Path, change: Any) -> None:
    """Let the index of the only device be what `change` makes of it, with right checksums."""
    root = json.loads((shared / "index.json").read_text())
    entry = root["devices"][0]["index"]
    document = json.loads((device_folder(shared) / f"{entry['sha256']}.json").read_text())
    change(document)
    data = json.dumps(document).encode()
    entry |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (device_folder(shared) / f"{entry['sha256']}.json").write_bytes(data)
    (shared / "index.json").write_text(json.dumps(root))


def content(shared: Path, data: bytes, suffix: str) -> dict[str, Any]:
    """Put a file with its right name into the folder of the only device, and give its entry in an index."""
    sha256 = hashlib.sha256(data).hexdigest()
    (device_folder(shared) / f"{sha256}{suffix}").write_bytes(data)
    return {"sha256": sha256, "bytes": len(data)}


@pytest.fixture
def shared(tmp_path: Path, tune: Tune) -> Path:
    """A shared store with two records and a log."""
    records = rtx(64, 1.0), rtx(128, 5.0)
    own = logged(stored(tmp_path / "own", *records), records[0], {8: 1.0, 4: 2.0})
    done = tune("push", tmp_path / "shared", "--results", own)
    assert done.status == 0, done.err
    return tmp_path / "shared"


@pytest.fixture
def server(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of the shared store, whose certificate is trusted, without a proxy."""
    monkeypatch.setenv("no_proxy", "localhost")
    with served(shared, tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        yield server


@pytest.mark.slow
def test_what_one_machine_has_tuned_another_pulls_under_its_own_name_and_verifies(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = scaled(tmp_path / "first", "right"), scaled(tmp_path / "second", "mine")
    own, theirs, shared = tmp_path / "own", tmp_path / "theirs", tmp_path / "shared"
    assert tune(first, "1000", "--repeats", "1", "--results", own).status == 0
    pushed = tune("push", shared, "--results", own, "--json")
    assert (pushed.json["records"], pushed.json["logs"]) == (1, 1), pushed.err
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "another machine"))
    monkeypatch.setenv("no_proxy", "localhost")
    with served(shared, tmp_path) as server:
        monkeypatch.setenv("SSL_CERT_FILE", str(server.certificate))
        pulled = tune("pull", server.url, second, "--results", theirs, "--json")
        name = catalog.load(str(second)).name
        assert (pulled.status, pulled.json["records"], pulled.json["logs"]) == (0, {name: 1}, 1), pulled.err
        assert pulled.json["files"] == 4, "two indexes, the records and the log"
        assert server.connections == 1
        (record,) = Store(name, theirs).records
        assert record.is_imported
        assert log_in(theirs).is_unverified
        assert len(log_in(theirs).entries) == 2
        assert "nearest_size, imported\n" in tune("best", second, "1000", "--results", theirs).out

        again = tune("pull", server.url, second, "--results", theirs, "--json").json
        assert (again["files"], again["unchanged"], again["records"]) == (2, 2, {}), "only the indexes are read again"
        checked = tune("verify", "--results", theirs)
        assert (checked.status, "1 verified" in checked.out) == (0, True), "the pull has remembered its file"
        (verified,) = Store(name, theirs).records
        assert verified.is_verified
        once_more = tune("pull", server.url, second, "--results", theirs, "--again", "--json").json
        assert (once_more["files"], once_more["records"], once_more["logs"]) == (4, {}, 0)
        assert Store(name, theirs).records == [verified]


@pytest.mark.slow
def test_a_pulled_record_keeps_no_claim_and_replaces_only_slower_pulled_ones(
    tune: Tune, shared: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    unverified = rtx(64, 9.0, error=None, bound=None, verified="none")
    of_another_reference = rtx(1024, 9.0, signature="0" * 32)
    logged(stored(mine, unverified, rtx(256, 9.0), of_another_reference), rtx(64, 9.0), {8: 7.0})
    other = stored(
        tmp_path / "more",
        rtx(1024, 1.0),
        rtx(256, 1.0, protocol=10**9, verified="expression", bits={"random": "0" * DIGITS}),
    )
    assert tune("push", shared, "--results", other).status == 0
    done = tune("pull", shared, KERNEL, "--device", "3090", "--results", mine, "--json")
    assert (done.status, done.json["records"], done.json["logs"]) == (0, {KERNEL: 1}, 0), done.err
    found = held(mine)
    assert (found[64].time_ms, found[64].doubt) == (9.0, "unverified"), "measured here"
    assert (found[256].time_ms, found[256].doubt) == (9.0, "")
    assert (found[1024].time_ms, len(found)) == (9.0, 4), "its code was measured here"
    assert (found[128].time_ms, found[128].doubt, found[128].strategy) == (5.0, "imported", "pulled")
    assert [entry.time_ms for entry in log_in(mine).entries.values()] == [7.0], "a log of this machine's own stays"

    empty = tmp_path / "empty"
    assert tune("pull", shared, KERNEL, "--device", "3090", "--results", empty).status == 0
    assert {record.doubt for record in held(empty).values()} == {"imported"}
    assert (held(empty)[256].protocol, held(empty)[256].bits) == (1, {})
    slower, faster = (stored(tmp_path / name, rtx(64, time_ms)) for name, time_ms in (("s", 1.5), ("f", 0.5)))
    for number, (folder, expected) in enumerate(((slower, 1.0), (faster, 0.5))):
        assert tune("push", tmp_path / f"shared {number}", "--results", folder).status == 0
        assert tune("pull", tmp_path / f"shared {number}", KERNEL, "--device", "3090", "--results", empty).status == 0
        assert held(empty)[64].time_ms == expected
    pushed = tune("push", tmp_path / "third", "--results", empty)
    assert (pushed.status, "no verified record to push (4 imported)" in pushed.err) == (2, True), pushed.err


def test_two_machines_push_into_one_store_and_the_better_records_stay(tune: Tune, shared: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in device_folder(shared).iterdir()}
    again = tune("push", shared, "--results", tmp_path / "own", "--json").json
    assert (again["records"], again["logs"]) == (0, 0)
    assert {path: path.read_bytes() for path in device_folder(shared).iterdir()} == before, "equal bytes"
    other = stored(tmp_path / "other", rtx(64, 0.5), rtx(128, 6.0), at(64, code=CODE), imported(rtx(512, 0.1)))
    logged(other, rtx(64, 0.5), {2: 0.5})
    logged(other, rtx(512, 0.1), {2: 0.1})  # as of an import: no record of the problem is verified
    done = tune("push", shared, "sgemm", "--results", other, "--json").json
    assert (done["records"], done["logs"], done["devices"]) == (2, 1, 2)
    assert done["left_out"] == {"imported": 1}
    old = [path for path in before if path.exists() and time.time() - path.stat().st_mtime < 60]
    assert {*old} == {*before}, "readers of the earlier index still find its files"
    mine = tmp_path / "mine"
    assert tune("pull", shared, KERNEL, "--device", "3090", "--results", mine).status == 0
    assert {size: record.time_ms for size, record in held(mine).items()} == {64: 0.5, 128: 5.0}
    assert sorted(entry.time_ms or 0 for entry in log_in(mine).entries.values()) == [0.5, 1.0, 2.0]

    for path in before:
        os.utime(path, (0, 0))
    note = shared / "README"
    note.write_text("kept")
    count = tune("push", shared, "--results", tmp_path / "own", "--json").json["files"]
    named = [path for path in shared.rglob("*") if path.is_file() and path.suffix != ".lock" and path != note]
    assert (len(named), note.exists()) == (count, True), "a day later, nothing is left that no index names"


def test_nothing_is_pushed_through_links_or_into_a_folder_of_other_things(
    tune: Tune, shared: Path, tmp_path: Path
) -> None:
    own, precious = tmp_path / "own", tmp_path / "precious"
    precious.write_text("mine")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("")
    for folder, message in ((other, "it has thesis.tex and no index.json"), (precious, "cannot be written")):
        done = tune("push", folder, "--results", own)
        assert (done.status, message in done.err, len(done.err.splitlines())) == (2, True, 1), done.err
    assert [path.name for path in other.iterdir()] == ["thesis.tex"], "not even a lock"
    linked = device_folder(shared)
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "index.json").symlink_to(precious)
    for folder in (shared, tmp_path / "third"):
        done = tune("push", folder, "--results", own)
        assert (done.status, "is a link; nothing is written through links" in done.err) == (2, True), done.err
    assert precious.read_text() == "mine"


def test_a_push_to_an_address_makes_no_folder_of_its_name(
    tune: Tune, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = tune("push", "https://example.org/tuned", "--results", tmp_path / "own")
    assert (done.status, "is an address; name a folder" in done.err, [*Path().iterdir()]) == (2, True, [])


def endless(handler: Handler) -> None:
    handler.send(b"x" * 65536, None)


def altered(handler: Handler) -> None:
    """Send the file with another first byte."""
    content = Path(handler.translate_path(handler.path)).read_bytes()
    handler.send(bytes([content[0] ^ 1]) + content[1:], len(content))


INDEX_FAULTS: dict[str, Any] = {
    "a redirect to http": (lambda h: h.redirect("http://localhost/index.json"), "a redirect begins with http://"),
    "a redirect to a file": (lambda h: h.redirect("file:///etc/passwd"), "a redirect begins with file://"),
    "a redirect in circles": (lambda h: h.redirect(h.path), "more than 5 redirects"),
    "an index without an end": (endless, "is longer; at most 8388608 are allowed"),
    "an index that is too large": (lambda h: h.send(b"{", 1 << 40), "has 1099511627776 bytes; at most 8388608"),
    "a truncated index": (lambda h: h.send(b'{"format"', 100), "ended after 9 of 100 bytes"),
    "a page in place of an index": (lambda h: h.send(b"<html>", 6), "is damaged"),
    "another document": (lambda h: h.send(b"{}", 2), "its format is not 'tuner shared store'"),
    "nothing there": (lambda h: h.send_error(404), "the server answers 404"),
    "a deep index": (lambda h: h.send(b"[" * 100_000, 100_000), "is damaged"),
}


@pytest.mark.parametrize("fault", INDEX_FAULTS)
def test_a_wrong_index_is_one_message(fault: str, tune: Tune, server: Server, tmp_path: Path) -> None:
    server.answers["/index.json"], message = INDEX_FAULTS[fault]
    done = tune("pull", server.url, KERNEL, "--device", "3090", "--results", tmp_path / "mine")
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message in done.err
    assert not (tmp_path / "mine").exists()


def test_a_server_in_trouble_is_asked_again_later(tune: Tune, server: Server, tmp_path: Path) -> None:
    server.answers["/index.json"] = lambda h: h.send_error(503)
    done = tune("pull", server.url, KERNEL, "--device", "3090", "--results", tmp_path / "mine")
    assert "the server answers 503" in done.err
    assert "pull again later" in done.err
    assert (done.status, len(done.err.splitlines())) == (2, 1)


FILE_FAULTS: dict[str, Any] = {
    "a longer file": (lambda h: h.send(b"x" * 100_000, 100_000), "has more than the "),
    "an endless file": (endless, "has more than the "),
    "a shorter file": (lambda h: h.send(b"x" * 10, 10), "has 10 of the "),
    "a truncated file": (lambda h: h.send(b"x" * 10, 20), "ended after 10 of 20 bytes"),
    "a file with another byte": (altered, "its checksum (SHA-256) is not that of the index"),
    "no file": (lambda h: h.send_error(404), "the server answers 404"),
}


@pytest.mark.parametrize("fault", FILE_FAULTS)
def test_a_wrong_file_is_one_message_and_others_are_pulled(
    fault: str, tune: Tune, server: Server, tmp_path: Path
) -> None:
    server.answers[".jsonl"], message = FILE_FAULTS[fault]
    done = tune("pull", server.url, KERNEL, "--device", "3090", "--results", tmp_path / "mine")
    assert (done.status, len(done.err.splitlines()), message in done.err) == (1, 1, True), done.err
    assert not held(tmp_path / "mine")
    assert len(log_in(tmp_path / "mine").entries) == 2
    server.answers.clear()
    assert tune("pull", server.url, KERNEL, "--device", "3090", "--results", tmp_path / "mine").status == 0
    assert len(held(tmp_path / "mine")) == 2, "it was not counted as pulled"


@pytest.mark.parametrize("error", [ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError])
def test_a_connection_that_the_server_has_closed_meanwhile_is_made_again(
    error: type[Exception], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(web.Web(server.url)) as shared:
        first = shared.read("index.json", 1 << 20)
        (kept,) = shared._connections.values()
        monkeypatch.setattr(kept, "request", Mock(side_effect=error("closed")))
        assert shared.read("index.json", 1 << 20) == first


def test_redirects_to_https_are_followed_and_an_unknown_certificate_is_not_trusted(
    tune: Tune, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers["/moved/index.json"] = lambda h: h.redirect(f"{server.url}/index.json?signed=1")
    request = "pull", f"{server.url}/moved", KERNEL, "--device", "3090", "--results"
    done = tune(*request, tmp_path / "mine", "--json")
    assert (done.status, done.json["passed_over"]) == (1, 1), "the device's index is not moved"
    assert any("signed=1" in path for path in server.paths)
    monkeypatch.delenv("SSL_CERT_FILE")
    refused = tune(*request, tmp_path / "mine")
    assert (refused.status, len(refused.err.splitlines())) == (2, 1)
    assert "the server's certificate is not trusted" in refused.err
    assert "; if you trust it, set SSL_CERT_FILE" in refused.err
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "no.pem"))
    assert f"SSL_CERT_FILE names {tmp_path}/no.pem, which is no file" in tune(*request, tmp_path / "mine").err


def test_a_proxy_for_https_is_asked_for_a_tunnel(
    tune: Tune, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = "pull", server.url, KERNEL, "--device", "3090", "--results", tmp_path / "mine"
    with Proxy() as proxy, running(proxy):
        monkeypatch.setenv("https_proxy", f"http://me:a%20word@{proxy.address}")
        monkeypatch.setenv("no_proxy", "localhost")
        assert tune(*request).status == 0
        assert not proxy.heads
        monkeypatch.setenv("no_proxy", "")
        assert tune(*request, "--again").status == 0
        (head,) = proxy.heads
    assert head.startswith(f"CONNECT {server.url.removeprefix('https://')} ")
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:a word').decode()}\r\n" in head
    monkeypatch.setenv("https_proxy", "http://")
    done = tune(*request)
    assert (done.status, done.err) == (2, "error: HTTPS_PROXY names no proxy; set it to http://HOST:PORT\n")
    monkeypatch.setenv("https_proxy", "http://me:secret@localhost:9")
    done = tune(*request)
    assert (done.status, "through the proxy localhost:9 that HTTPS_PROXY names" in done.err) == (2, True), done.err
    assert "secret" not in done.err


def hostile_log(shared: Path, header: dict[str, Any], entries: str) -> bytes:
    """The log of the shared store with other members of its header, and these entries."""
    (path,) = device_folder(shared).glob("*.json.gz")
    document = json.loads(gzip.decompress(path.read_bytes()))
    document |= header
    text = json.dumps({name: value for name, value in document.items() if name != "cache"})[:-1]
    return gzip.compress(f'{text}, "cache": {{{entries}}}}}'.encode())


ENTRY = json.dumps({**config(8), "time": 1.0})
CLAIMS: dict[str, Any] = {
    "a path that leads out": ({"sha256": "../../../../etc/passwd", "bytes": 9}, "sha256 is '../../../../etc/passwd'"),
    "a size of nothing": ({"sha256": "0" * 64, "bytes": 0}, "bytes is 0; allowed for *.json.gz"),
    "a huge size": ({"sha256": "0" * 64, "bytes": 1 << 40}, "bytes is 1099511627776; allowed for *.json.gz"),
    "a size that is no number": ({"sha256": "0" * 64, "bytes": True}, "bytes is True"),
    "no checksum": ({"bytes": 9}, "is damaged: no 'sha256'"),
    "a bomb": (lambda _: gzip.compress(b" " * (1 << 25)), "bytes decompressed"),
    "no archive": (lambda _: b"{}", "cannot be decompressed"),
    "half an archive": (lambda shared: hostile_log(shared, {}, f'"a": {ENTRY}')[:-9], "is no whole gzip file"),
    "no log": (lambda _: gzip.compress(b'{"cache": {}}'), "no configuration with a time"),
    "another device": (
        lambda shared: hostile_log(shared, {"device_name": "Other"}, f'"a": {ENTRY}'),
        "the log is of another device or code",
    ),
    "another problem": (
        lambda shared: hostile_log(shared, {"problem_size": {"n": 1}}, f'"a": {ENTRY}'),
        "has sizes, options, types or parameters that",
    ),
    "sizes beyond all numbers": (
        lambda shared: hostile_log(shared, {"problem_size": dict.fromkeys("MNK", 10**400)}, f'"a": {ENTRY}'),
        "has sizes, options, types or parameters that",
    ),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_an_index_or_a_log_that_claims_something_odd_is_one_message(
    claim: str, tune: Tune, shared: Path, tmp_path: Path
) -> None:
    what, message = CLAIMS[claim]
    entry = what if isinstance(what, dict) else content(shared, what(shared), ".json.gz")
    rewritten(shared, lambda document: document["kernels"][0].update(logs=[entry]))
    done = tune("pull", shared, KERNEL, "--device", "3090", "--results", tmp_path / "mine")
    assert (done.status, len(done.err.splitlines()), message in done.err) == (1, 1, True), done.err
    assert not (tmp_path / "mine" / "recordings").exists()


def test_records_of_other_devices_kernels_and_values_are_told_and_left(
    tune: Tune, shared: Path, tmp_path: Path
) -> None:
    odd = [
        replace(rtx(32, 1.0), device="Other"),
        rtx(33, 1.0, code="0" * 32),
        rtx(34, 1.0, config={**config(8), "block_size_x": 31}),
        rtx(35, 1.0, options={"gamma": 1.0}),
        rtx(36, 1.0, same_bits_as="default"),
        rtx(37, 1.0),
    ]
    header = json.dumps({"format": "tuner results", "version": 1, "kernel": "whatever"})
    entry = content(shared, "\n".join([header, *(record.to_line() for record in odd)]).encode(), ".jsonl")
    rewritten(shared, lambda document: document["kernels"][0].update(records=entry, logs=[]))
    done = tune("pull", shared, KERNEL, "--device", "3090", "--results", tmp_path / "mine")
    assert (done.status, len(done.err.splitlines())) == (0, 1), done.err
    assert "5 of 6 records" in done.err
    assert {*held(tmp_path / "mine")} == {37}
    torn = content(shared, f"{header}\n{{}}\n".encode(), ".jsonl")
    rewritten(shared, lambda document: document["kernels"][0].update(records=torn))
    done = tune("pull", shared, KERNEL, "--device", "3090", "--results", tmp_path / "mine")
    assert (done.status, "skipped, not a record: no " in done.err) == (1, True), done.err
    rewritten(shared, lambda document: document["kernels"][0].update(code="0" * 32))
    done = tune("pull", shared, "--device", "3090", "--results", tmp_path / "mine")
    assert (done.status, "1 other kernel left there" in done.err) == (0, True), done.err


def test_values_that_a_log_makes_up_never_get_into_the_store(tune: Tune, shared: Path, tmp_path: Path) -> None:
    made_up = json.dumps({**config(8), "block_size_x": 31, "time": 0.001})
    entry = content(shared, hostile_log(shared, {}, f'"a": {ENTRY}, "b": {made_up}'), ".json.gz")
    rewritten(shared, lambda document: document["kernels"][0].update(logs=[entry]))
    assert tune("pull", shared, KERNEL, "--device", "3090", "--results", tmp_path / "mine").status == 0
    assert [entry.time_ms for entry in log_in(tmp_path / "mine").entries.values()] == [1.0]


def test_a_pull_reads_no_more_than_it_may_and_goes_on_where_it_stopped(
    tune: Tune, shared: Path, tmp_path: Path
) -> None:
    large = content(shared, os.urandom(1_000_000), ".json.gz")
    rewritten(shared, lambda document: document["kernels"][0]["logs"].insert(0, large))
    request = "pull", shared, KERNEL, "--device", "3090", "--results", tmp_path / "mine"
    done = tune(*request, "--most", "1", "--json")
    assert (done.status, done.json["left"], done.json["logs"]) == (0, 1, 1), done.err
    assert done.json["bytes"] < 100_000
    assert "1 file left out: --most 1 allows no more bytes" in done.err
    more = tune(*request, "--json")
    assert (more.json["unchanged"], more.json["passed_over"]) == (2, 1), "the large one is no archive"


REQUESTS: dict[str, tuple[tuple[str, ...], str]] = {
    "http": (("http://localhost/tuned",), "http://: only https:// is read"),
    "file": (("file:///etc",), "file://: only https:// is read"),
    "a password": (("https://me:secret@localhost/tuned",), "the address holds a user or password"),
    "a query": (("https://localhost/tuned?x=1",), "the address has a query or fragment"),
    "no host": (("https:///tuned",), "only https://HOST/FOLDER is read"),
    "no port": (("https://localhost:http/tuned",), "the address is no URL"),
    "no folder": (("nowhere",), "there is no such folder"),
    "an empty folder": (("empty",), "index.json: cannot be read: No such file or directory"),
    "no kernel": (("SHARED", "no/such"), "there is no such kernel"),
    "no device": (("SHARED", KERNEL, "--device", "B300"), "has no such device; it has NVIDIA GeForce RTX 3090"),
    "nobody there": (("https://localhost:9/tuned",), "cannot be read"),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_wrong_request_is_one_message(
    case: str, tune: Tune, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    words, message = REQUESTS[case]
    done = tune("pull", *(str(shared) if word == "SHARED" else word for word in words))
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message in done.err
    assert "secret" not in done.err
