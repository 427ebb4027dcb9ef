"""`tune reproduce` measures what was published, row by row."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from helpers.experiments import EXPERIMENT
from helpers.kernels import BLAS_ARGUMENTS, Stage
from helpers.processes import PATIENCE_SECONDS, Tune, start, wait_until
from tuner import experiments
from tuner.experiments import plot

HOST = """\
      - {name: library, reference: library, time: 1 ms}
      - {name: bound, reference: peak, time: 0.1 ms}
      - {name: plain, stage: sgemm/00_host_simple, config: {openmp: 0}, time: 3 ms, rate: 0.17 Gflops}
      - {name: by 8, stage: sgemm/01_host_blocked, config: {block_size: 8, openmp: 0}, rate: ~1, share: 50%}
      - {name: by 16, stage: sgemm/01_host_blocked, config: {block_size: 16, openmp: 0}, time: 1.5-2.5 ms}
      - {name: by 32, stage: sgemm/01_host_blocked, config: {block_size: 32, openmp: 0}, time: 4 ms}
      - {name: by 64, stage: sgemm/01_host_blocked, config: {block_size: 64, openmp: 0}, time: 5 ms}
      - {name: halves, stage: hgemm/01_wmma_naive, config: {wmma_n: 16}, time: 1 ms}
      - {name: later, stage: sgemm/99_to_come, config: {any: 1}, time: 1 ms}
"""


@pytest.mark.slow
def test_rows_are_measured_with_the_published_constants_and_tuned(tmp_path: Path, tune: Tune) -> None:
    file, folder = tmp_path / "own.yaml", tmp_path / "out"
    file.write_text(EXPERIMENT + HOST)
    request = ("reproduce", file, "--device", "host", "--output", folder, "--budget", "3", "--json")
    done = tune(*request)
    assert done.status == 0, done.err
    (table,) = done.json["tables"]
    found = {row["row"]: row for row in table["rows"]}

    by16 = found["by 16"]
    assert by16["published"]["printed"] == {"time": "1.5-2.5 ms"}
    assert by16["published"]["time_ms"] == 2
    assert by16["published"]["gflops"] == pytest.approx(2 * 64**3 / 2e6)
    assert by16["published"]["share"] == 0.5
    assert by16["size"] == {"M": 64, "N": 64, "K": 64, "batch": 1}
    assert by16["constants"]["config"] == {"block_size": 16, "openmp": 0}
    for one in (by16["constants"], by16["tuned"]):
        assert one["gflops"] == pytest.approx(2 * 64**3 / one["time_ms"] / 1e6)
        assert one["vs_library"] is None
    assert by16["tuned"]["origin"] == "a search now, 3 of 12 configurations tried"
    assert found["plain"]["tuned"]["origin"] == "a search now, 2 of 2 configurations tried"

    assert "written in cuda" in found["halves"]["constants"]["reason"]
    assert found["later"]["constants"]["reason"] == "sgemm/99_to_come is not in the catalogue"
    assert found["library"]["constants"]["time_ms"] is None
    assert found["bound"]["constants"]["time_ms"] is None
    assert table["rank_correlation"]["rows"] == 5
    assert -1 <= table["rank_correlation"]["spearman"] <= 1

    assert json.loads((folder / "own.json").read_text()) == done.json
    page = (folder / "own.md").read_text()
    assert "| by 16 | 1.5-2.5 ms | (0.2621) | (50.0%) | host:0, 64 |" in page
    assert "- Left out: later: sgemm/99_to_come is not in the catalogue." in page
    assert "Rank correlation (Spearman)" in page
    assert (folder / "own.png").exists() == plot.available()
    assert not plot.available() or (folder / "own.png").read_bytes().startswith(b"\x89PNG")

    again = tune(*request, "--no-tune", "--small")
    (table,) = again.json["tables"]
    assert all(row["tuned"]["config"] is None for row in table["rows"])
    assert table["rows"][4]["size"]["M"] == 32
    shown = tune(*request[:-1], "--no-tune")
    assert shown.out.count("host:0, 64 │") == 5
    (table,) = json.loads((folder / "own.json").read_text())["tables"]
    assert table["rows"][4]["tuned"]["origin"].startswith("the store's record, ")
    assert table["rows"][4]["tuned"]["config"] == by16["tuned"]["config"]


@pytest.mark.slow
def test_an_opencl_processor_reproduces_at_a_small_size_and_says_so(tmp_path: Path, tune: Tune) -> None:
    shipped = Path(experiments.__file__).with_name("studylog.yaml").read_text()
    assert "small: 256" in shipped
    file = tmp_path / "studylog.yaml"
    file.write_text(shipped.replace("small: 256", "small: 32"))
    done = tune("reproduce", file, "--device", "opencl", "--no-tune", "--output", tmp_path)
    assert done.status == 0, done.err
    naive, tiled, *_ = json.loads((tmp_path / "studylog.json").read_text())["tables"][0]["rows"]
    assert naive["size"]["M"] == 32
    assert (naive["constants"]["loads"], tiled["constants"]["loads"]) == (2 * 32**3, 2 * 32**3 // 16)
    assert "At a small size, which says little about the published size: all stages." in done.out
    assert "Left out, tuned: all stages: the store has no record of this size" in done.out


@pytest.mark.slow
def test_where_nothing_is_published_or_measured_the_files_say_so(tmp_path: Path, tune: Tune) -> None:
    done = tune("reproduce", "studylog", "--device", "host", "--no-tune", "--output", tmp_path)
    assert done.status == 1
    assert "interrupted" not in done.err
    assert "none of 4 rows could be measured" in done.err
    assert (tmp_path / "studylog.md").exists()
    assert (tmp_path / "studylog.png").exists() == plot.available()


FAULTY = f"""
#include <stdlib.h>
#include <unistd.h>
void faulty({BLAS_ARGUMENTS}) {{
#if mode == 1
    abort();
#elif mode == 3
    for (;;) sleep(1);
#endif
    for (int i = 0; i < M; i++) for (int j = 0; j < N; j++) {{
        float s = 0;
        for (int k = 0; k < K; k++) s += A[i * K + k] * B[k * N + j];
        C[i * N + j] = (beta == 0 ? alpha * s : alpha * s + beta * C[i * N + j]) + (mode == 2);
    }}
}}
"""


def faulty(folder: Path, stage: Stage, modes: list[int]) -> Path:
    """An experiment whose rows go wrong in the ways of `modes`, each a stage's own after the first stage's."""
    stage(FAULTY, "faulty", "{mode: [0, 1, 2, 3]}", more="default: {mode: 0}")
    file = folder / "own.yaml"
    lines = [f"      - {{name: mode {m}, stage: ./faulty.yaml, config: {{mode: {m}}}, time: 1 ms}}\n" for m in modes]
    file.write_text(EXPERIMENT + "".join(lines))
    return file


@pytest.mark.slow
def test_a_row_that_fails_costs_that_row(tmp_path: Path, tune: Tune, stage: Stage) -> None:
    file = faulty(tmp_path, stage, [1, 2, 0])
    done = tune("reproduce", file, "--no-tune", "--output", tmp_path, "--json")
    assert done.status == 1
    crashed, wrong, right = done.json["tables"][0]["rows"]
    assert crashed["constants"]["reason"].startswith("crash: ")
    assert wrong["constants"]["reason"].startswith("wrong result")
    assert crashed["constants"]["failed"]
    assert wrong["constants"]["failed"]
    assert right["constants"]["time_ms"] > 0
    assert "- Failed, published constants: mode 2: wrong result" in (tmp_path / "own.md").read_text()


@pytest.mark.slow
def test_interrupting_keeps_what_was_measured(tmp_path: Path, stage: Stage) -> None:
    file = faulty(tmp_path, stage, [3])
    first = "      - {name: first, stage: sgemm/00_host_simple, config: {openmp: 0}, time: 1 ms}\n"
    file.write_text(file.read_text().replace("    rows:\n", f"    rows:\n{first}"))
    running = start("reproduce", str(file), "--no-tune", "--output", str(tmp_path))
    kept = tmp_path / "own.json"
    wait_until(kept.exists, running)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 130, err
    assert "interrupted; results so far are kept" in err
    assert (tmp_path / "own.png").exists() == plot.available()
    done = json.loads(kept.read_text())
    first_row, second = done["tables"][0]["rows"]
    assert done["finished"] is False
    assert first_row["constants"]["time_ms"] > 0
    assert second["constants"]["reason"] == "not measured: the run was interrupted"


def test_without_matplotlib_there_is_one_message_and_all_but_the_picture(
    tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plot, "find_spec", lambda name: None)
    file = tmp_path / "own.yaml"
    file.write_text(f"{EXPERIMENT}      - {{name: later, stage: sgemm/99_to_come, time: 1 ms}}\n")
    done = tune("reproduce", file, "--output", tmp_path)
    assert done.status == 1
    assert done.err.splitlines()[0] == plot.MISSING
    assert done.err.splitlines()[-1] == "own: none of 1 rows could be measured"
    assert sorted(path.name for path in tmp_path.glob("own.*")) == ["own.json", "own.md", "own.yaml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--device", "cuda:99"), "device 'cuda:99': this machine has no such device"),
        (("--device", "abacus"), "device 'abacus': there is no such device"),
        (("--budget", "much"), "--budget 'much': write a number"),
        (("--output", "/dev/null/x"), "--output /dev/null/x: cannot be written"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_measured(
    arguments: tuple[str, ...], message: str, tmp_path: Path, tune: Tune
) -> None:
    done = tune("reproduce", "lecture", "--output", tmp_path, *arguments)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


@pytest.mark.gpu
def test_a_gpu_reproduces_the_batched_ladder_beside_cublas_and_its_bound(tmp_path: Path, tune: Tune) -> None:
    done = tune("reproduce", "rtx3050", "--device", "cuda", "--no-tune", "--output", tmp_path, "--json")
    assert done.status == 0, done.err
    bound, library, *stages = done.json["tables"][0]["rows"]
    assert bound["size"] == {"M": 1000, "N": 1000, "K": 1000, "batch": 100}
    times = [one["constants"]["time_ms"] for one in (bound, library, *stages[1:])]
    assert all(times)
    assert times[0] == min(times)
    assert library["constants"]["vs_library"] == 1
    assert 0.01 < stages[-1]["constants"]["vs_library"] < 1.2


@pytest.mark.gpu
def test_a_gpu_reproduces_every_row_of_both_ladders(tmp_path: Path, tune: Tune) -> None:
    done = tune("reproduce", "gemm-from", "--device", "cuda", "--small", "--no-tune", "--output", tmp_path, "--json")
    assert done.status == 0, done.err
    for table in done.json["tables"]:
        for row in table["rows"]:
            assert row["constants"]["time_ms"] > 0, row
            assert row["constants"]["vs_library"] > 0
