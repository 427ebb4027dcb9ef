"""One's own kernels are listed, named, tuned, reported and launched like those that ship."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tuner
from helpers.kernels import Stage
from helpers.own_kernels import project, scaled
from helpers.processes import Tune, nobody
from tuner import devices, paths
from tuner.catalog import catalog, folders, known_files
from tuner.errors import NoConfiguration, RequestError
from tuner.store.store import Store


def listed(tune: Tune) -> dict[str, str]:
    """The names of the kernels that are not ours, with where they belong."""
    done = tune("list", "--json")
    assert done.status == 0, done.err
    return {row["kernel"]: row["origin"] for row in done.json if row["origin"] != "tuner"}


def match(tune: Tune, kernel: str | Path, *more: str | Path) -> tuple[str, str, bool]:
    """The kernel's name, how well its record fits on the host, and whether it is stale."""
    done = tune("best", kernel, "--device", "host", "--json", *more)
    assert done.status == 0, done.err
    return done.json["kernel"], done.json["match"], done.json["stale"]


@pytest.mark.slow
def test_a_project_lists_its_kernels_and_they_answer_to_name_part_and_path_from_anywhere_in_it(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "checkout", 'name = "vision"\nspaces = ["tuning"]\n', "blur", "sharpen")
    scaled(root / "tuning" / "deep", "edges")
    (root / "tuning" / "operation.yaml").write_text("shared by several, and no kernel")
    (root / "tuning" / "_draft.yaml").write_text("not to be listed")
    monkeypatch.chdir(root / "tuning" / "deep")
    assert listed(tune) == dict.fromkeys(["vision/blur", "vision/sharpen", "vision/deep/edges"], "project vision")
    assert "vision/blur" in tune("list").out
    for kernel in ("vision/blur", "blur", root / "tuning/blur.yaml", Path("../blur.yaml")):
        assert tune("show", kernel, "--json").json["kernel"] == "vision/blur"
    for kernel in ("../blur.yaml", "vision/blur"):
        assert tune("validate", kernel, "--json").json["kernel"] == "vision/blur"
    monkeypatch.chdir(tmp_path)
    assert listed(tune) == {}
    assert "there is no such kernel" in tune("show", "vision/blur").err


@pytest.mark.slow
def test_a_kernel_that_no_device_has_taken_is_not_listed(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path, "blur")
    assert tune(file, "64", "--device", "opencl").status == 2  # it is in C
    assert tune(file, "100000000000").status == 2
    assert listed(tune) == {}
    assert tune(file, "64", "--budget", "1").status == 0
    assert [*listed(tune)] == [match(tune, file)[0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("toml", "name"),
    [
        ('[project]\nname = "vision"\n[tool.tuner]\nspaces = ["tuning"]\n', "vision"),
        ('[project]\nname = "another"\n[tool.tuner]\nname = "vision"\nspaces = ["tuning"]\n', "vision"),
        ('[tool.tuner]\nspaces = ["tuning"]\n', "my_checkout"),
    ],
)
def test_a_pyproject_says_the_same_and_names_the_project(
    toml: str, name: str, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "my checkout"
    scaled(root / "tuning", "blur")
    (root / "pyproject.toml").write_text(toml)
    (root / "sub").mkdir()
    (root / "sub" / "pyproject.toml").write_text("[project]\nname = 'inner'\n")  # says nothing of kernels
    monkeypatch.chdir(root / "sub")
    assert listed(tune) == {f"{name}/blur": f"project {name}"}


@pytest.mark.slow
def test_folders_of_the_environment_are_listed_each_file_once(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled(tmp_path / "one", "blur")
    scaled(tmp_path / "two" / "deep", "blur")
    monkeypatch.setenv(
        "TUNER_SPACES", os.pathsep.join(map(str, (tmp_path / "one", tmp_path / "two", tmp_path / "one")))
    )
    assert listed(tune) == dict.fromkeys(["one/blur", "two/deep/blur"], "TUNER_SPACES")
    assert "could be one/blur, two/deep/blur" in tune("show", "blur").err


@pytest.mark.slow
def test_files_of_one_name_in_two_folders_share_no_place(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [scaled(tmp_path / owner / "fp64", "fp64", factor) for owner, factor in (("ann", 2), ("bob", 3))]
    for file in files:
        assert tune(file, "--device", "host").status == 0
    assert [match(tune, file) for file in files] == [("fp64/fp64", "exact", False), ("bob/fp64/fp64", "exact", False)]
    assert listed(tune) == {"fp64/fp64": "file", "bob/fp64/fp64": "file"}
    assert match(tune, "bob/fp64")[0] == "bob/fp64/fp64"
    files[0].unlink()
    assert listed(tune) == {"bob/fp64/fp64": "file"}, "a file that is gone is left out"
    assert "could be" not in tune("best", "fp64/fp64").err, "its name is a part of the other's"
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "another"))
    done = tune("best", "fp64/fp64")
    assert (done.status, len(done.err.splitlines())) == (2, 1)
    assert "there are records of it, but its file is not known" in done.err


def test_a_copy_of_one_of_our_files_has_a_place_of_its_own_and_our_records_while_its_code_is_the_same(
    tune: Tune, tmp_path: Path
) -> None:
    for folder in ("spaces", "kernels"):
        shutil.copytree(paths.shipped(folder) / "sgemm", tmp_path / folder / "sgemm")
    file = tmp_path / "spaces/sgemm/06_tiled.yaml"
    space = catalog.load(str(file))
    assert space.name == "spaces/sgemm/06_tiled"
    ours = [record.key for record in Store("sgemm/06_tiled").records]
    copied = [record.key for record in Store.of(space, paths.shipped("results")).records]
    assert sorted(copied) == sorted(ours)
    kernel = tmp_path / "kernels/sgemm/06_tiled.cu"
    kernel.write_text(kernel.read_text() + "\nint more;\n")
    assert Store.of(catalog.load(str(file)), paths.shipped("results")).records == []


@pytest.mark.slow
def test_records_of_another_machine_are_found_wherever_the_project_lies(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = project(tmp_path / "there", 'name = "vision"\nspaces = ["tuning"]\n', "blur")
    assert tune(there / "tuning/blur.yaml", "--device", "host").status == 0
    here = tmp_path / "far" / "here"
    shutil.copytree(there, here)
    monkeypatch.setenv("TUNER_RESULTS", str(tmp_path / "laptop"))
    monkeypatch.setenv("TUNER_STATE", str(tmp_path / "laptop-state"))
    assert match(tune, here / "tuning/blur.yaml") == ("vision/blur", "default", False)
    assert tune("merge", tmp_path / "results").status == 0
    assert match(tune, here / "tuning/blur.yaml") == ("vision/blur", "exact", False)
    sent = scaled(tmp_path / "sent", "blur")  # without the project's file
    assert match(tune, sent) == ("sent/blur", "exact", False)
    scaled(tmp_path / "sent", "blur", factor=5)
    assert match(tune, sent) == ("sent/blur", "default", False), "the records are of other code"
    monkeypatch.setenv("TUNER_SPACES", str(there / "tuning"))
    monkeypatch.chdir(here)
    assert match(tune, "blur") == ("vision/blur", "exact", False), "its own file, not the other copy's"
    (here / "tuning/blur.yaml").unlink()
    gone = tune("best", "vision/blur", "--device", "host")
    assert (gone.status, gone.out) == (2, "")
    assert f"another copy of the project has it: write {there / 'tuning/blur.yaml'}" in gone.err


@pytest.mark.slow
def test_what_a_file_had_under_another_name_stays_found_and_is_continued(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = scaled(tmp_path / "home" / "tuning", "blur")
    assert tune(file, "--device", "host", "--json").json["evaluated"] == 2
    (tmp_path / "home" / "tuner.toml").write_text('name = "vision"\nspaces = ["tuning"]\n')
    assert match(tune, file) == ("vision/blur", "exact", False)
    exported = tune("export", file, "--to", "csv", "--output", tmp_path / "trials.csv", "--json")
    assert (exported.json["trials"], exported.json["from"]) == (2, "ledger"), exported.err
    done = tune(file, "--device", "host", "--json")
    assert done.json["kernel"] == "vision/blur"
    assert "2 configurations, 2 measured before" in done.err, "the ledger goes on"
    monkeypatch.chdir(tmp_path / "home")
    kernels = {row["kernel"] for row in tune("report", "--device", "host", "--json").json}
    assert kernels == {"vision/blur"}, "each measurement once"
    assert (tmp_path / "results/tuning/blur.jsonl").exists(), "nothing is lost"
    paths.user_results().rename(tmp_path / "home" / "tuned")
    monkeypatch.delenv("TUNER_RESULTS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "of another user"))
    with pytest.raises(NoConfiguration):
        tuner.best(str(file), device="host")
    (tmp_path / "home" / "tuner.toml").write_text('name = "vision"\n[options]\nresults = "tuned"\n')
    tuner.best(str(file), device="host")  # a program takes the store of the kernel's project


@pytest.mark.slow
def test_a_file_whose_folder_is_renamed_keeps_its_records_and_trials(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path / "home" / "tuning", "blur")
    assert tune(file, "--device", "host").status == 0
    copy = scaled(tmp_path / "home" / "other", "blur")
    assert match(tune, copy) == ("other/blur", "default", False), "the file with the records is still there"
    moved = file.parent.rename(tmp_path / "home" / "kernels") / file.name
    assert match(tune, moved) == ("kernels/blur", "exact", False)
    assert "2 configurations, 2 measured before" in tune(moved, "--device", "host").err
    scaled(moved.parent, "blur", factor=5)
    assert match(tune, moved)[1:] == ("exact", True), "stale: of the code that it had"


@pytest.mark.slow
def test_a_shared_study_goes_on_under_the_name_that_it_has(tune: Tune, tmp_path: Path) -> None:
    file, url = scaled(tmp_path / "home" / "tuning", "blur"), f"sqlite:///{tmp_path}/study.db"
    assert tune(file, "--device", "host", "--storage", url).status == 0
    (tmp_path / "home" / "tuner.toml").write_text('name = "vision"\n')
    assert "2 configurations, 2 measured before" in tune(file, "--device", "host", "--storage", url).err
    assert "2 configurations:" in tune(file, "--device", "host", "--storage", url, "--fresh").err.replace("\n", ":")


@pytest.mark.slow
def test_a_better_record_under_an_earlier_name_is_not_hidden_by_a_worse_one(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path / "home" / "tuning", "blur")
    assert tune(file, "--device", "host").status == 0
    (faster,) = Store("tuning/blur").records
    (tmp_path / "home" / "tuner.toml").write_text('name = "vision"\n')
    slower = replace(faster, config={"unroll": 3 - int(faster.config["unroll"])}, time_ms=2 * faster.time_ms)
    assert not Store.of(catalog.load(str(file))).add(slower)
    assert Store("vision/tuning/blur").records == [faster], "it was copied"
    assert Store("tuning/blur").records == [faster]


@pytest.mark.slow
def test_a_record_of_other_code_under_an_earlier_name_is_taken_only_if_no_other_kernel_has_that_name(
    tune: Tune, tmp_path: Path
) -> None:
    file = scaled(tmp_path / "home" / "tuning", "blur")
    assert tune(file, "--device", "host").status == 0
    (tmp_path / "home" / "tuner.toml").write_text('name = "vision"\n')
    scaled(file.parent, "blur", factor=5)
    assert match(tune, file) == ("vision/tuning/blur", "exact", True), "an earlier version of it"
    other = scaled(tmp_path / "other" / "tuning", "blur")
    assert tune(other, "--device", "host").status == 0
    assert match(tune, other) == ("other/tuning/blur", "exact", False), "the name is still that of the file before it"


@pytest.mark.slow
def test_sizes_and_the_default_come_from_the_file_everywhere(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path / "mine", "double")
    assert tune("show", file, "--json").json["default"] == {"unroll": 1}
    file.write_text(f"{file.read_text()}source_note: as in a book\n")
    assert tune("show", file).out.endswith("\nnote: as in a book\n")
    done = tune(file, "--device", "host", "--json")
    assert (done.json["size"], done.json["kernel"]) == ({"n": 1000}, "mine/double")
    (record,) = Store("mine/double").records
    assert record.default_ms is not None, "the first valid configuration is the one that gains are told over"
    assert "mine/double" in tune("report", "--device", "host").out.split("\n\n")[1], "the table of gains"
    assert match(tune, "mine/double")[1] == "exact"
    run = tune("run", "mine/double", "--device", "host")
    assert "mine/double at n=1000 on" in run.out, run.err
    export = tune("export", "mine/double", "--to", "header", "--device", "host", "--output", tmp_path / "double.h")
    assert "n=1000" in (tmp_path / "double.h").read_text(), export.err
    kernel = tuner.load("mine/double", device="host")
    x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    pickle.loads(pickle.dumps(kernel))(y, x)
    assert (y == 2).all()
    assert "SIZE is missing: sgemm/03_naive was measured at " in tune("best", "sgemm/03_naive").err
    with pytest.raises(RequestError, match=r"SIZE is missing"):
        tuner.load("sgemm/03_naive")


EXPERIMENT = """\
title: A table of ours
author: we
where: nowhere
device: a processor
tables:
  - title: scaling
    size: 1000
    small: 1000
    rows:
      - {name: as written, stage: vision/blur, time: 1 ms}
"""


@pytest.mark.slow
def test_an_experiment_reproduces_a_row_of_a_kernel_of_ones_own_without_a_default(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "checkout", 'name = "vision"\nspaces = ["tuning"]\n', "blur")
    (root / "table.yaml").write_text(EXPERIMENT)
    monkeypatch.chdir(root)
    done = tune("reproduce", "table.yaml", "--device", "host", "--budget", "2", "--json")
    assert done.status == 0, done.err
    assert '"unroll": 1' in json.dumps(done.json)
    assert match(tune, "vision/blur")[1] == "exact"


BAD_PROJECTS = {
    "name = ": "is not TOML",
    "\xff": "is not TOML",
    'name = "../up"\nspaces = ["tuning"]': "name = '../up': letters, digits",
    'name = ""': "name = '': letters",
    "name = 1": "name = 1: letters",
    'spaces = "tuning"': "spaces = 'tuning': write a list of at most 100 folders",
    "spaces = [1]": "spaces = [1]: write a list",
    'spaces = ["no\\u0000"]': "write a list of at most 100 folders",
    'folders = ["tuning"]': "'folders': there is no such key; write `name`, `spaces` or `options`",
    'spaces = ["missing"]': "missing: there is no such folder",
    'spaces = ["tuner.toml"]': "tuner.toml: there is no such folder",
}


@pytest.mark.slow
@pytest.mark.parametrize("toml", BAD_PROJECTS)
def test_a_faulty_project_is_one_warning_of_the_list_and_takes_no_kernel_of_ours_away(
    toml: str, tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tuner.toml").write_bytes(toml.encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    done = tune("list")
    assert (done.status, "sgemm/03_naive" in done.out) == (0, True)
    assert (done.err.startswith("warning: "), len(done.err.splitlines())) == (True, 1), done.err
    assert BAD_PROJECTS[toml] in done.err
    assert "tuner.toml" in done.err
    missing = tune("show", "blur")
    assert missing.status == 2
    *warnings, error = missing.err.splitlines()
    assert missing.err.count(BAD_PROJECTS[toml]) == 1, "it may be why there is no such kernel"
    assert "the warning above may say why" in error or not warnings
    assert all(line.endswith("its defaults are ignored") for line in warnings)
    assert tune("show", "sgemm/03_naive", "64").status == 0


def test_a_faulty_space_file_is_named_by_the_list_which_goes_on(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "checkout", 'name = "vision"\nspaces = ["tuning"]\n', "blur", "sharpen")
    (root / "tuning" / "broken.yaml").write_text("title: [")
    (root / "tuning" / "lost.yaml").symlink_to(tmp_path / "nowhere")
    (root / "tuning" / "again.yaml").symlink_to(root / "tuning" / "blur.yaml")
    (root / "tuning" / "loop").symlink_to(root)
    os.mkfifo(root / "tuning" / "pipe.yaml")
    (root / "tuning" / "strange \x1b[31m.yaml").write_text((root / "tuning" / "sharpen.yaml").read_text())
    monkeypatch.chdir(root)
    done = tune("list", "--json")
    assert listed(tune) == dict.fromkeys(["vision/blur", "vision/sharpen", "vision/strange___31m"], "project vision")
    assert (done.status, len(done.err.splitlines())) == (0, 1), done.err
    assert "broken.yaml" in done.err
    assert "broken.yaml" in tune("list", "broken").err, "it may be the one that is sought"
    assert "\x1b" not in tune("list").out


def test_a_folder_without_permission_is_named(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    with nobody() as folder:
        root = project(folder / "checkout", 'name = "vision"\nspaces = ["tuning"]\n', "blur")
        (root / "tuning" / "closed").mkdir(mode=0)
        monkeypatch.chdir(root)
        done = tune("list")
        assert (done.status, "vision/blur" in done.out, len(done.err.splitlines())) == (0, True, 1)
        assert "closed: cannot be read: Permission denied" in done.err
        monkeypatch.chdir("/")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_project_file_of_another_user_above_is_passed_over(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "open", 'name = "vision"\nspaces = ["tuning"]\n', "blur")
    (root / "mine").mkdir()
    os.chown(root / "tuner.toml", 65534, 65534)
    monkeypatch.chdir(root / "mine")
    assert listed(tune) == {}
    for part in (root, *root.rglob("*")):
        os.chown(part, 65534, 65534)  # as in a container: everything belongs to the user outside
    assert listed(tune) == {"vision/blur": "project vision"}


def test_of_a_huge_folder_a_bounded_part_is_looked_at(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "checkout", 'name = "vision"\nspaces = ["tuning"]\n', "a", "b")
    scaled(root / "tuning" / "below", "c")
    monkeypatch.setattr(folders, "MOST_ENTRIES", 5)
    monkeypatch.chdir(root)
    assert "has more than 5 files; the rest is ignored" in tune("list").err
    assert {"vision/a", "vision/b"} <= listed(tune).keys()


def test_two_files_of_one_name_are_told_apart_by_their_paths(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner in ("ann", "bob"):
        project(tmp_path / owner, 'name = "vision"\n', "blur")
    monkeypatch.setenv("TUNER_SPACES", os.pathsep.join(str(tmp_path / owner) for owner in ("ann", "bob")))
    done = tune("show", "vision/tuning/blur")
    assert done.status == 2
    assert "ann/tuning/blur.yaml, " in done.err
    assert "write the path of one, or give their projects different names (`name`" in done.err


def test_the_first_of_several_folders_gives_the_shorter_name(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "v", 'name = "vision"\nspaces = ["one", "two"]\n', "blur", folder="one")
    scaled(root / "two", "blur")
    scaled(root / "two", "edges")
    monkeypatch.chdir(root)
    assert list(listed(tune)) == ["vision/blur", "vision/two/blur", "vision/edges"]


def test_a_project_cannot_take_the_name_of_a_kernel_of_ours(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "checkout", 'name = "sgemm"\nspaces = ["tuning"]\n', "03_naive")
    monkeypatch.chdir(root)
    assert list(listed(tune)) == ["sgemm/checkout/tuning/03_naive"]
    assert tune("show", "sgemm/03_naive", "64", "--json").json["title"] != "Multiply by 2"


@pytest.mark.slow
def test_a_list_of_known_files_that_is_damaged_or_of_others_is_not_followed(tune: Tune, tmp_path: Path) -> None:
    file = scaled(tmp_path / "mine", "double")
    assert tune(file, "--device", "host").status == 0
    known = paths.known_kernels()
    lines = [
        "{",
        "[]",
        '{"file": 1, "name": 2}',
        '{"file": "/x", "name": "../../x"}',
        '{"file": "x.yaml", "name": "x/x"}',
    ]
    known.write_text("\n".join(["\0", *lines, known.read_text()]))
    assert listed(tune) == {"mine/double": "file"}
    known.chmod(0o666)
    done = tune("list")
    assert (done.status, "mine/double" in done.out) == (0, False)
    assert "other users may write to it" in done.err


def test_a_kernel_in_cuda_alone_is_told_how_it_may_run_elsewhere(tune: Tune, stage: Stage) -> None:
    code = 'extern "C" KERNEL void only(float *C) {}'
    told = tune(stage(code, "only", "{a: [0]}", "cuda", "grid: [1]\nblock: [1]"), "8", "--device", "opencl").err
    assert "runs on cuda, not on opencl; a source that includes portable.h may run on opencl, too" in told
    file = stage("__global__ void only(float *C) {}", "only", "{a: [0]}", "cuda", "grid: [1]\nblock: [1]")
    requests = ((), ("--device", "cuda"), ("--device", "opencl"))
    for more in requests if not devices.count("cuda") else ():
        done = tune(file, "8", *more)
        assert (done.status, "portable.h" in done.err, "use --device" in done.err) == (2, False, False)
        assert "only.yaml SIZE --compile --answers` compiles it and computes its answers without a GPU;" in done.err
    assert "portable.h" not in tune("hgemm/07", "128", "--device", "opencl").err, "which is CUDA by its nature"


def test_the_list_does_not_warn_of_what_was_tuned_elsewhere(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, here = project(tmp_path / "checkout", "", "blur"), tmp_path / "here"
    file = root / "tuning" / "blur.yaml"
    here.mkdir()
    (root / "tuner.toml").unlink()
    known_files.add(file, "checkout/blur")
    monkeypatch.chdir(here)
    assert "checkout/blur" in tune("list").out
    file.write_text("title: [")
    done = tune("list")
    assert (done.status, done.err, "blur" in done.out) == (0, "", False)
    assert "blur.yaml" in tune("show", "checkout/blur").err, "who asks for it is told"
    (root / "tuner.toml").write_text("spaces = [1]")
    assert tune("list").err == ""
    (root / "tuner.toml").unlink()
    monkeypatch.chdir(root)
    assert "blur.yaml" in tune("list").err
