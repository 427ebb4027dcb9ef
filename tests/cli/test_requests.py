"""What the command line answers to right and wrong requests."""

from __future__ import annotations

import importlib.metadata
import itertools
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from helpers.processes import Tune, start
from tuner import devices
from tuner.cli import app
from tuner.cli.verb_names import VERBS
from tuner.errors import DeviceError

BAD_REQUESTS = {
    ("sgemm/99_nothing", "100"): "did you mean",
    ("03_naiv_", "100"): "did you mean sgemm/03_naive",
    ("gemm", "100"): "write more of the name",
    ("nowhere.yaml", "100"): "there is no such file",
    ("03_naive", "0"): "whole number from 1 on",
    ("03_naive", "-1"): "whole number from 1 on",
    ("03_naive", "1.5"): "whole number from 1 on",
    ("03_naive", "4096x"): "whole number from 1 on",
    ("03_naive", "10^12"): "whole number from 1 on",
    ("03_naive", "1000000000000"): "int32",
    ("03_naive", "1234567890123456789"): "at most 2147483647 is allowed",
    ("03_naive", "12345678901234567890"): "'12345678901234567890' is too large; a size is at most 9223372036854775807",
    ("03_naive", "9" * 5000): "is too large; a size is at most 9223372036854775807",
    ("03_naive", "0" * 30): "whole number from 1 on",
    ("03_naive", "2000000"): "try a smaller size",
    ("03_naive", "1x2"): "2 numbers for M, N, K",
    ("03_naive", "M=1,N=2"): "K not given; write M=1,N=2,K=1024",
    ("03_naive", "8,9"): "M is given twice",
    ("03_naive", "8,9,10"): "M is given twice",
    ("03_naive", "M=1,N=2,K=3,M=4"): "M is given twice",
    ("03_naive", "8,Q=2"): "no size 'Q'",
    ("03_naive", "8,M=1,N=2,K=3,batch=4"): "1 number beside sizes that are all named",
    ("03_naive",): "SIZE is missing, M x N x K or one number for all of them, as in `tune 03_naive 1024x1024x1024`",
    ("vector_add",): "SIZE is missing, n, as in `tune vector_add 1024`",
    ("03_naive", "8", "--device", "tpu"): "there is no such device",
    ("03_naive", "8", "--device", "opencl:99"): "OpenCL devices",
    ("03_naive", "8", "--device", "host"): "not on host",
    ("03_naive", "8", "--strategy", "magic"): "there is no such strategy",
    ("03_naive", "8", "--budget", "soon"): "--budget",
    ("03_naive", "8", "--objective", "speed"): "write one of time, energy",
    ("03_naive", "8", "--objective", "time,time"): "write one of time, energy",
    ("03_naive", "8", "--objective", "registers,time"): "the first objective decides",
    ("03_naive", "8", "--device", "opencl", "--objective", "time,registers"): "it reports shared_memory",
    ("03_naive", "8", "--device", "opencl", "--objective", "energy"): "has no energy counter",
    ("03_naive", "8", "--objective", "time,energy", "--strategy", "kt:pso"): "supports one objective",
    ("03_naive", "8", "--set", "gamma=1"): "no such option",
    ("03_naive", "8", "--set", "alpha=nan"): "NAME=NUMBER",
    ("03_naive", "8", "--nonsense"): "no such option --nonsense",
    ("-V",): "did you mean --version?",
    ("03_naive", "8", "--buget", "3"): "no such option --buget; did you mean --budget?",
    ("03_naive", "8", "--strategy", "kt:nope"): "there is no such strategy; there are: ",
    ("03_naive", "8", "--strategy", "kt:simulated_anealing"): "no such strategy; did you mean kt:simulated_annealing?",
    ("sgem", "8"): "or did you mean the family sgemm?",
    ("shwo", "8"): "did you mean `tune show`?",
    ("spaces/sgemm/03_naiv.yaml", "8"): "no such file; did you mean spaces/sgemm/03_naive.yaml?",
    ("show", "sgemm"): "name; to use all of them, write `tune sgemm SIZE`, `tune compare sgemm` or tuner.dispatch",
    ("cover", "sgemm", "--sizes", "64:wrong"): "64:wrong",
    ("cover", "sgemm", "0"): "whole number from 1 on",
    ("cover", "sgemm", "64", "--timeout", "nan"): "--timeout",
    ("sgemm", "64", "0"): "whole number from 1 on",
    ("sgemm", "64", "--strategy", "magic"): "there is no such strategy",
    ("show", "03_naive", "zero"): "whole number from 1 on",
    ("best", "03_naive", "0"): "whole number from 1 on",
    ("run", "03_naive", "0"): "whole number from 1 on",
    ("run", "nothing", "8"): "there is no such kernel",
    ("run", ".", "8"): "there is no such kernel; it is a folder; name a space file in it",
    ("tune", "sgemm/03_naive", "8"): "tuning needs no verb: write `tune KERNEL SIZE`",
    ("merge", "nothing"): "name a folder of results, or a file *.jsonl of one",
    ("validate", "nowhere.yaml"): "there is no such file; name a YAML file",
    ("validate", "spaces/sgemm/03_naive.yml"): "there is no such file; did you mean spaces/sgemm/03_naive.yaml?",
    ("show", "spaces/sgemm/03_naive.yamll"): "there is no such kernel; did you mean spaces/sgemm/03_naive.yaml?",
    ("new", "kernels/sgemm/03_naiv.cu"): "No such file or directory; did you mean kernels/sgemm/03_naive.cu?",
    ("new", "kernels/sgemm/03_naive.cu", "draft.yaml"): "draft.yaml: a second argument; write `--output FILE` to name",
    ("list", "extra", "more"): "more",
    ("list", "nothing such"): "no kernel has 'nothing such' in its name or title; `tune list` lists all",
    ("03_naive", "8", "--seed", "-1"): "--seed",
    ("03_naive", "8", "--timeout", "nan"): "--timeout",
    ("03_naive", "8", "--timeout", "inf"): "--timeout",
    ("report", "--write", "."): "is a directory",
    ("report", "--device", "abacus"): "the store has no records of such a device; it has NVIDIA H200",
    ("record", "03_naive", "8", "--device", "opencl", "-o", "/dev/null/x.json"): "there is no folder /dev/null",
    ("report", "12_warptiled", "4096", "-o", "/mistyped/x.html"): "there is no folder /mistyped; make it, or",
    ("compare", "sgemm", "-o", "/proc/x.html"): "--output /proc/x.html: cannot be written: ",
    ("03_naive", "8x8x8,batch=100000", "--device", "opencl:7"): "OpenCL devices",
}


@pytest.mark.slow
@pytest.mark.parametrize("request_", BAD_REQUESTS, ids=" ".join)
def test_a_wrong_request_is_one_message_and_exit_2(request_: tuple[str, ...], tune: Tune) -> None:
    done = tune(*request_)
    assert (done.status, done.out) == (2, ""), done.err
    assert BAD_REQUESTS[request_] in done.err
    assert len(done.err.splitlines()) == 1


def test_an_error_within_a_file_suggests_no_family_of_a_similar_name(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sgemm.yaml").write_text("title: t\nkernel: k  # ? which one?\n")
    done = tune("sgemm.yaml", "8")
    assert done.status == 2
    assert done.err.endswith("line 2: kernel: which one?\n")


NUMBERS = [
    (verb, option.opts[0], option.type)
    for verb in ("kernel", *VERBS)
    for option in app.cli.get_command(click.Context(app.cli), verb).params  # type: ignore[union-attr,attr-defined]
    if any(text in repr(option.type) for text in ("INT", "FLOAT", "Whole", "Real"))
]


def test_a_cache_that_cannot_be_used_is_told_with_its_variable_alone(
    tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").touch()
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    done = tune("gallery/coulomb", "8x8x8", "--device", "opencl")
    assert (done.status, done.out) == (2, "")
    assert done.err.endswith("/cache: cannot be used: File exists; choose another folder with TUNER_CACHE\n"), done.err


@pytest.mark.parametrize(("verb", "option", "kind"), NUMBERS, ids=lambda value: str(value).split(" ")[0])
def test_an_option_that_takes_a_number_says_its_range(
    verb: str, option: str, kind: click.IntRange | click.FloatRange, tune: Tune
) -> None:
    for wrong in ("abc", "nan", f"{kind.max:.15g}0"):
        done = tune(verb, option, wrong)
        assert (done.status, done.out) == (2, "")
        assert done.err.startswith(f"error: {option} {wrong!r}: write a ")
        assert f"{kind.min:.15g}" in done.err
        assert f"{kind.max:.15g}" in done.err


LONG = "x1" * 5500
LONG_REQUESTS = [
    (LONG,), (f"{LONG}.yaml", "8"), ("03_naive", LONG), ("03_naive", f"M={LONG}"), ("03_naive", f"{LONG}=1"),
    ("list", LONG), ("report", "--device", LONG), ("report", "--write", LONG), ("merge", LONG), ("reproduce", LONG),
    *(("03_naive", "8", option, LONG) for option in ("--device", "--strategy", "--budget", "--objective", "--set")),
    ("03_naive", "8", "--set", f"{LONG}=1"), ("03_naive", "8", f"--{LONG}"), ("03_naive", "8", "--storage", LONG),
    ("show", "03_naive", "8", "--device", LONG), ("best", "03_naive", "8", "--device", LONG), ("validate", LONG),
    ("validate", LONG, "8"), ("import", LONG), ("replay", LONG), ("import", LONG, "--kernel", LONG),
    ("record", "03_naive", "8", "--output", LONG),
    *(("export", "03_naive", "8", "--to", to, "--device", LONG) for to in ("cu", "cubin", "csv")),
    ("export", "03_naive", "8", "--to", "cubin", "--architecture", LONG), ("export", "03_naive", "8", "--to", LONG),
    ("export", "03_naive", "8", "--to", "header", "--output", LONG),
    ("report", LONG, "8"), ("report", "--recording", LONG), ("explain", LONG, "8"), ("compare", LONG),
    ("compare", "sgemm", "--size", LONG), ("compare", "sgemm", "--results", LONG, "--results", LONG),
    ("report", "12_warptiled", "4096", "-o", f"{LONG}.html"), ("report", "12_warptiled", "4096", "--device", LONG),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("request_", LONG_REQUESTS, ids=lambda request: " ".join(request).replace(LONG, "LONG"))
def test_a_value_of_11000_characters_is_not_echoed_whole(request_: tuple[str, ...], tune: Tune) -> None:
    done = tune(*request_)
    assert (done.status, len(done.err.splitlines())) == (2, 1), done.err
    assert len(done.err) < 1500
    assert "Traceback" not in done.err


def test_a_machine_without_a_driver_is_not_told_to_install_a_package(
    tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    if devices.count("cuda"):
        pytest.skip("a driver is here")
    for package in ("cuda", "pycuda"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    message = r"device 'cuda': no NVIDIA driver .*; "
    with pytest.raises(DeviceError, match=f"^{message}use --device opencl or host$"):
        devices.open_device("cuda")
    told = {"sgemm/03_naive": "use --device opencl", "hgemm/07": r"hgemm/07\w+ runs on cuda alone: see `tune devices`"}
    for verb, (kernel, advice) in itertools.product(((), ("run",)), told.items()):
        done = tune(*verb, kernel, "128", "--device", "cuda")
        assert (done.status, done.out) == (2, "")
        assert re.fullmatch(f"error: {message}{advice}\n?", done.err.strip()), done.err


def test_a_compiler_whose_name_is_no_command_is_one_message(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "'")
    for verb in ((), ("show",), ("run",)):
        done = tune(*verb, "sgemm/00_host_simple", "8", "--device", "host")
        assert (done.status, done.out, len(done.err.splitlines())) == (2, "", 1)
        assert 'CC is "\'", which is not a command: No closing quotation; set CC' in done.err
    assert "which is not a command" in tune("sgemm/00_host_simple", "8").err
    done = tune("devices")
    assert (done.status, "opencl:0" in done.out, "host:0" in done.out) == (0, True, False)
    assert "which is not a command" in done.err


@pytest.mark.slow
def test_show_counts_what_tuning_would_search(tune: Tune) -> None:
    shown = tune("show", "03_naive", "16", "--json").json
    tuned = tune("03_naive", "16", "--budget", "1", "--json").json
    assert (shown["configurations"], shown["counted_for"]) == (tuned["configurations"], tuned["device"])
    assert (
        f"{tuned['configurations']} configurations are valid at 16 on {tuned['device']}"
        in tune("show", "03_naive", "16").out
    )


def test_list_show_and_devices_answer_in_json_and_for_people(tune: Tune) -> None:
    rows = {row["kernel"]: row for row in tune("list", "--json").json}
    assert rows["sgemm/07_tiled_1xn"]["languages"] == ["cuda", "opencl"]
    assert rows["sgemm/07_tiled_1xn"]["parameters"] == 5
    found = tune("list", "Transpose of a", "--json").json
    assert {row["kernel"] for row in found} == {"gallery/transpose", "gallery/transpose_part"}

    shown = tune("show", "07_tiled_1xn", "4096", "--json").json
    assert shown["configurations"] > 20
    assert shown["default"]["tile_size_x"] == 4
    assert {"that": "block_size_x == block_size_y * tile_size_y",
            "because": "the tile of A is square, as deep as it has rows"} in shown["restrictions"]  # fmt: skip
    assert "restriction" in tune("show", "07_tiled_1xn").out

    kinds = {row["device"]: row for row in tune("devices", "--json").json}
    assert {"opencl:0", "host:0"} <= kinds.keys()
    shown = tune("devices").out
    assert kinds["opencl:0"]["name"][:30] in shown  # a long name is shortened
    assert all(line.count("  ") >= 3 and len(line) < 160 for line in shown.splitlines()[:2])


@pytest.mark.slow
def test_the_verbose_version_tells_packages_devices_and_folders_but_no_values_of_variables(
    tune: Tune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TUNER_RESULTS", str(tmp_path))
    monkeypatch.setenv("TUNER_STORAGE", "postgresql://me:secret@host/db")
    told = tune("--version", "--verbose").out
    assert f"kernel_tuner {importlib.metadata.version('kernel_tuner')}, " in told
    assert "distributed" in told
    assert {f"{name}: " for name in devices.available()} <= {line[: line.find(" ") + 1] for line in told.splitlines()}
    assert f"store: {tmp_path}\n" in told
    assert "TUNER_STORAGE" in told
    assert "secret" not in told
    assert "tune --version --verbose" in tune("--verbose").err


def test_a_full_standard_output_is_one_message() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "tuner", "list"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "standard output: no space left" in done.stderr


def test_a_folder_of_results_that_is_not_there_is_told(tmp_path: Path, tune: Tune) -> None:
    done = tune("best", "03_naive", "64", "--device", "H200", "--results", tmp_path / "mistyped")
    assert done.status == 0
    assert "mistyped: there is no such folder" in done.err


@pytest.mark.slow
def test_a_pipe_gets_plain_lines(tune: Tune) -> None:
    done = tune("sgemm/00_host_simple", "16")
    assert "\x1b" not in done.out + done.err
    assert "2/2  best" in done.err
    assert done.out.startswith("best: openmp=")


def test_the_command_line_says_what_it_lacks() -> None:
    script = "import sys; sys.modules['click'] = None; from tuner.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "the command line needs click" in done.stderr


WRONG_FROM_THE_START = ("failures nope 12", "history 03_naive 0", "report nope 12", "explain nope 12", "record nope 12")


@pytest.mark.slow
def test_a_wrong_request_does_not_wait_for_what_it_would_need() -> None:
    script = f"""
import contextlib, sys
from tuner.__main__ import main
for words in {WRONG_FROM_THE_START}:
    sys.argv = ["tune", *words.split()]
    with contextlib.suppress(SystemExit):
        main()
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.count("error: ") == len(WRONG_FROM_THE_START)
    assert not {"optuna", "sqlalchemy", "kernel_tuner", "vl_convert"} & set(done.stdout.split())


@pytest.mark.skipif(bool(devices.count("cuda")), reason="a GPU is here")
def test_configurations_are_counted_for_a_gpu_that_meets_what_the_kernel_needs(tune: Tune) -> None:
    shown = tune("show", "gallery/tma_copy", "1024", "--json").json
    assert shown["configurations"] > 0
    assert shown["counted_for"] == "a GPU of capability 9.0"


@pytest.mark.parametrize("request_", [("../f.yaml", "8"), ("validate", "../f.yaml"), ("best", "../f.yaml", "8")])
def test_a_current_folder_that_has_been_deleted_is_named(
    request_: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (tmp_path / "f.yaml").write_text("title: t\n")
    folder.rmdir()
    process = start(*request_)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, ""), err
    assert err.splitlines()[-1].startswith("error: the current folder has been deleted, ")
    assert "Traceback" not in err
