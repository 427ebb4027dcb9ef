"""Code has one identity, and what it is compared with another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tuner
from helpers.processes import Tune
from helpers.references import CHECK, DATA, KERNEL, NAIVE_C, PYTHON, C, space
from tuner.catalog import catalog
from tuner.space import identity
from tuner.space.sources import rendering
from tuner.store.store import Store


def records(file: Path) -> list[tuple[str, str | None]]:
    space = catalog.load(str(file))
    return [(record.signature, record.code) for record in Store(space.name).records]


@pytest.mark.slow
def test_code_has_one_identity_and_what_it_is_compared_with_another(tmp_path: Path, tune: Tune) -> None:
    folder = tmp_path / "mine"
    file = space(folder, PYTHON, fill={"python": "data.py:drawn"})
    (folder / "check.py").write_text("import beside\n" + CHECK)
    (folder / "beside.py").write_text("")

    def is_measured_before() -> bool:
        done = tune(file, "100", "--device", "host")
        assert done.status == 0, done.err
        return "1 measured before" in done.err

    assert tune(file, "100", "--device", "host").status == 0
    assert is_measured_before()
    identities = {identity.of(catalog.load(str(file)))}
    for name, text in {"check.py": "import beside\n\n" + CHECK, "beside.py": "x = 1", "data.py": DATA + "\n"}.items():
        (folder / name).write_text(text)
        identities.add(identity.of(catalog.load(str(file))))
    assert len(identities) == 4
    assert not is_measured_before()  # a ledger goes by the identity
    drawn = {"fill": {"python": "data.py:drawn"}}
    for reference, more in ((PYTHON, {**drawn, "tolerance": 1e-3}), (KERNEL, drawn), (KERNEL, {})):
        space(folder, reference, **more)
        identities.add(identity.of(catalog.load(str(file))))
        assert tuner.load(file, 100, device="host", strict=True).match == "exact"  # the code is the same all the time
    assert len(identities) == 7
    assert not is_measured_before()
    (folder / "f.c").write_text(C.replace("BODY", "1 + a * x[i]"))
    with pytest.warns(UserWarning, match="an earlier version of the kernel"):
        tuner.load(file, 100, device="host")
    signatures, codes = zip(*records(file), strict=True)
    assert (len(set(signatures)), len(set(codes))) == (len(signatures), 1)


@pytest.mark.slow
def test_a_changed_reference_kernel_is_measured_again(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", KERNEL)
    first = tune(file, "100", "--device", "host")
    (tmp_path / "mine" / "naive.c").write_text(NAIVE_C + "// a comment changes nothing\n")
    second = tune(file, "100", "--device", "host")
    (tmp_path / "mine" / "naive.c").write_text(NAIVE_C.replace("+ 1", "+ 1.0f"))
    third = tune(file, "100", "--device", "host")
    assert [done.status for done in (first, second, third)] == [0, 0, 0]
    assert ["1 measured before" in done.err for done in (first, second, third)] == [False, True, False]


@pytest.mark.slow
@pytest.mark.usefixtures("untuned")
def test_a_record_without_the_name_of_its_code_is_matched_by_its_signature(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "a * x + 1")
    assert tune(file, "100", "--device", "host").status == 0
    (stored,) = (tmp_path / "results").rglob("f.jsonl")
    header, line = stored.read_text().splitlines()
    record = json.loads(line)
    assert record["signature"] == rendering.signature(
        catalog.load(str(file))
    )  # as it was before there were other forms
    stored.write_text(f"{header}\n{json.dumps({k: v for k, v in record.items() if k not in ('code', 'verified')})}\n")
    assert tuner.load(file, 100, device="host", strict=True).match == "exact"
    assert "unverified" not in tune("report").out


def test_the_record_of_the_latest_reference_comes_first(tmp_path: Path, tune: Tune) -> None:
    file = space(tmp_path / "mine", "a * x + 1")
    assert tune(file, "100", "--device", "host").status == 0
    (stored,) = (tmp_path / "results").rglob("f.jsonl")
    record = json.loads(stored.read_text().splitlines()[1])
    later = {**record, "signature": "another", "date": "2099-01-01T00:00:00+00:00", "time_ms": 2 * record["time_ms"]}
    with stored.open("a") as lines:
        lines.write(json.dumps(later) + "\n")
    best = tune("best", file, "100", "--device", "host", "--json").json
    assert (best["match"], best["stale"], best["record"]["signature"]) == ("exact", False, "another")


@pytest.mark.slow
def test_functions_and_kernels_move_along_with_their_folder(tmp_path: Path, tune: Tune) -> None:
    for reference in (PYTHON, KERNEL):
        file = space(tmp_path / "mine", reference)
        catalog.load(str(file))  # leaves its launch form in the cache
        moved = tmp_path / f"moved {next(iter(reference))}" / "mine"
        moved.parent.mkdir()
        file.parent.rename(moved)
        done = tune(moved / "f.yaml", "100", "--device", "host")
        assert done.status == 0, done.err
