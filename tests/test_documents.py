"""What the documents say is what happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.processes import Done
from tuner.cli import app
from tuner.store import report

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def test_ci_runs_the_readmes_second_command_and_nothing_else() -> None:
    (_, first), (_, second) = BLOCKS[:2]
    assert len(first.splitlines()) == len(second.splitlines()) == 1
    script = (ROOT / ".ci/run").read_text().splitlines()
    commands = [line for line in script if line and not line.startswith("#") and line.split()[0] not in ("set", "cd")]
    assert commands == [second.strip()]


def test_every_verb_is_documented_and_has_an_example() -> None:
    for name, command in ((verb, app.cli.get_command(None, verb)) for verb in app.VERBS):
        assert "Example: tune" in (command.help or ""), name
        if not command.hidden:
            assert f"\n    tune {name} " in README, name


def test_the_tables_show_what_the_store_holds() -> None:
    for name, table in report.tables(report.rows("H200", Path("/nowhere"))).items():
        assert README.partition(f"<!-- {name}: begin -->")[2].partition(f"<!-- {name}: end -->")[0].strip() == table
        assert len(table.splitlines()) >= 6


def test_a_table_is_written_between_the_markers(tmp_path: Path, tune: Callable[..., Done]) -> None:
    file = tmp_path / "page.md"
    assert tune("03_naive", "16", "--device", "opencl", "--budget", "3").status == 0
    for name in ("results", "gains"):
        file.write_text(f"a\n<!-- {name}: begin -->\nold\n<!-- {name}: end -->\nb\n")
        assert tune("report", "--write", file).status == 0
        assert file.read_text().startswith(f"a\n<!-- {name}: begin -->\n| kernel |")
        assert file.read_text().endswith(f"|\n<!-- {name}: end -->\nb\n")
    file.write_text("<!-- gains: begin -->")
    assert "<!-- gains: end -->" in tune("report", "--write", file).err
    file.write_text("no markers")
    done = tune("report", "--write", file)
    assert (done.status, file.read_text()) == (2, "no markers")


@pytest.mark.parametrize("device", ["opencl"])
def test_the_readmes_own_kernel_tunes(device: str, tmp_path: Path, tune: Callable[..., Done]) -> None:
    texts = {text.split()[1]: text for kind, text in BLOCKS if kind in ("c", "yaml")}
    for name in ("scale.cu", "scale.yaml"):
        (tmp_path / name).write_text(texts[name])
    done = tune(tmp_path / "scale.yaml", "10000", "--device", device, "--json", "--repeats", "3")
    assert done.status == 0, done.err
    assert done.json["evaluated"] == 16
    assert done.json["failed"] == {}
    best = done.json["best"]
    assert best["gflops"] is None
    assert best["gbytes"] == pytest.approx(8 * 10_000 / best["time_ms"] / 1e6)
    run = tune("run", tmp_path / "scale.yaml", "10000", "--device", device)
    assert " GB/s" in run.out
