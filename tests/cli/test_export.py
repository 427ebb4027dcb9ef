"""What `tune export` refuses, and where it writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.processes import Tune
from helpers.records import KERNEL
from tuner.devices import Device


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((KERNEL, "1024", "--to", "header", "--architecture", "sm_80"), "--architecture applies to --to cubin"),
        ((KERNEL, "1024", "--to", "cu", "--storage", "sqlite:///x"), "--storage applies to --to "),
        ((KERNEL, "1024", "--to", "cubin", "--architecture", "sm_80;x"), "write names such as sm_80"),
        ((KERNEL, "1024", "--to", "cubin", "--architecture", "sm_20"), "nothing compiles for sm_20: "),
        (("sgemm/00_host_simple", "64", "--to", "cubin"), "which has no cubins; use --to dispatch for its builds"),
        ((KERNEL, "1024", "--to", "cu", "--device", "Voodoo"), "those are: NVIDIA H200; `tune merge FOLDER` adds"),
        ((KERNEL, "1024", "--to", "csv", "--device", "Voodoo"), "nothing has been measured"),
        ((KERNEL, "1024", "--to", "header", "--output", "/proc/no/where.h"), "cannot be written"),
        ((KERNEL, "1024", "--to", "header", "--output", ""), "--output '': names no file"),
        ((KERNEL, "1024", "--to", "header", "--output", "-"), "--output '-': names no file"),
        ((KERNEL, "1024", "--to", "header", "--output", "/tmp"), "/tmp: cannot be written: Is a directory"),
        ((KERNEL, "4096", "--to", "kernel-tuner", "--output", "/tmp"), "/tmp: cannot be written: Is a directory"),
        ((KERNEL, "1024", "--to", "header", "--output", "/dev/null"), "/dev/null: cannot be written: not a regular"),
        ((KERNEL, "1024", "--to", "pdf"), "--to"),
        ((KERNEL, "1024"), "Missing option '--to'. Choose from: "),
        ((KERNEL, "1024", "--to", "csv", "--storage", "sqlite:////no/where.db"), "there is no such file"),
        ((KERNEL, "1024", "--to", "csv", "--storage", "sqlite:////bin/sh"), "the ledger cannot be read"),
        (
            (KERNEL, "1024", "--to", "cubin", "--device", "opencl"),
            "--device opencl: --to cubin is for CUDA devices; name one with --device, or an architecture such as "
            "--architecture sm_90a; for other devices use --to dispatch",
        ),
        (
            (KERNEL, "1024", "--to", "cubin", "--device", "opencl", "--architecture", "sm_80"),
            "--device opencl: --to cubin is for CUDA devices; name",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_message(arguments: tuple[str, ...], message: str, tune: Tune) -> None:
    done = tune("export", *arguments)
    assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1), done.err
    assert message in done.err


@pytest.mark.slow
def test_the_exact_record_of_this_machine_comes_before_that_of_another_kind(
    tune: Tune, tmp_path: Path, opencl: Device
) -> None:
    kernel = "sgemm/03_naive"  # the store knows it on an H200, and CUDA comes before OpenCL
    assert tune(kernel, "8", "--device", "opencl", "--budget", "2").status == 0
    done = tune("export", kernel, "8", "--to", "cu", "-o", tmp_path / "x.cu", "--json")
    (device,) = done.json["devices"]
    assert (device["device"], device["match"]) == (opencl.name, "exact")
    assert "H200" in tune("export", kernel, "1024", "--to", "cu", "--output", tmp_path / "x.cu", "--json").out


@pytest.mark.parametrize("to", ["header", "kernel-tuner"])
def test_what_is_written_goes_through_a_link(to: str, tune: Tune, tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "elsewhere" / "target"
    link.symlink_to(target)
    for _ in range(2):
        assert tune("export", KERNEL, "4096", "--to", to, "--output", link).status == 0
        assert link.is_symlink()
        assert target.stat().st_size > 0
        target.write_text("")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link", "loop"])
def test_what_another_has_open_is_not_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "loop").symlink_to("loop")
    asked = [sys.executable, "-m", "tuner", "export", KERNEL, "4096", "--to", "header", "--output", name]
    with (tmp_path / "out").open("w") as out:
        out.write("before\n")
        out.flush()
        done = subprocess.run(asked, stdout=out, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert f"{name}: cannot be written: " in done.stderr
    assert (tmp_path / "out").read_text() == "before\n"
