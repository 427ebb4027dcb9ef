"""Options that are not typed: the environment, then the project's file; and completion in a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from helpers import ROOT
from helpers.processes import Done
from tuner.cli import app

Tune = Callable[..., Done]
BEST = ("best", "sgemm/03_naive", "4096")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a tuner.toml, where the commands run."""
    folder = tmp_path / "vision"
    folder.mkdir()
    (folder / "tuner.toml").write_text('[options]\ndevice = "H200"\n[options.best]\njson = true\n')
    monkeypatch.chdir(folder)
    return folder


def test_a_flag_precedes_the_environment_and_that_precedes_the_file(
    home: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tune(*BEST).json["device"] == "NVIDIA H200", "the file's device, and its json"
    monkeypatch.setenv("TUNER_DEVICE", "Z80")
    assert "--device Z80" in tune(*BEST).err
    assert "it comes from TUNER_DEVICE" in tune(*BEST).err
    assert tune(*BEST, "--device", "H200").json["device"] == "NVIDIA H200"
    assert "TUNER_DEVICE" not in tune(*BEST, "--device", "6502").err


def test_a_table_of_a_pyproject_serves_too_and_that_of_a_verb_precedes_the_general_one(home: Path, tune: Tune) -> None:
    table = (
        "[project]\nname = 'vision'\n[tool.tuner.options]\ndevice = 'Z80'\n[tool.tuner.options.best]\ndevice = 'H200'\n"
    )
    (home / "tuner.toml").unlink()
    (home / "pyproject.toml").write_text(table)
    (home / "deeper").mkdir()
    os.chdir(home / "deeper")
    assert tune(*BEST, "--json").json["device"] == "NVIDIA H200"


@pytest.mark.slow
def test_paths_are_from_the_folder_of_the_file_and_the_environment_precedes_them(
    home: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "tuner.toml").write_text('[options]\nresults = "tuned"\n[options.tune]\nset = ["alpha=2"]\nbudget = 1\n')
    (home / "deeper").mkdir()
    os.chdir(home / "deeper")
    monkeypatch.delenv("TUNER_RESULTS")
    assert tune("sgemm/03_naive", "8", "--device", "opencl", "--json").json["evaluated"] == 1
    assert '"alpha": 2.0' in (home / "tuned/sgemm/03_naive.jsonl").read_text()
    monkeypatch.setenv("TUNER_RESULTS", str(home / "other"))
    assert tune("best", "sgemm/03_naive", "8", "--device", "opencl", "--json").json["match"] != "exact"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("device", "gpu", "device 'gpu': there is no such device"),
        ("device", "host", "device 'host': sgemm/03_naive is written in"),
        ("set", "zz=1", "option zz: no such option"),
        ("type", "q=float16", "type q: the kernel has no choice of types"),
        ("strategy", "none", "--strategy 'none': there is no such strategy"),
    ],
)
def test_a_message_tells_where_a_value_comes_from_that_nobody_has_typed(
    option: str, value: str, message: str, home: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "tuner.toml").write_text(f'[options]\n{option} = "{value}"\n')
    told = tune("sgemm/03_naive", "8").err
    assert told.startswith(f"error: {message}")
    assert told.endswith(f"; it comes from options.{option} in {home / 'tuner.toml'}\n")
    monkeypatch.setenv(f"TUNER_{option.upper()}", value)
    told = tune("sgemm/03_naive", "8").err
    assert told.startswith(f"error: {message}")
    assert told.endswith(f"; it comes from TUNER_{option.upper()}\n")
    assert "it comes from" not in tune("sgemm/03_naive", "8", f"--{option}", value).err


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('devise = "H200"', "tuner.toml: options.devise: there is no such option; did you mean device?"),
        ('best = {devise = "H200"}', "tuner.toml: options.best.devise: there is no such option; did you mean device?"),
        ("device = true", "tuner.toml: options.device = True: write a text or a number"),
        ("best = {json = 1}", "tuner.toml: options.best.json = 1: write true or false"),
        ('device = "Z80"', "it comes from options.device in "),
        ("x", "tuner.toml: is not TOML"),
    ],
)
def test_what_a_file_may_not_say_is_one_message_with_file_and_key(
    table: str, message: str, home: Path, tune: Tune
) -> None:
    (home / "tuner.toml").write_text(f"[options]\n{table}\n")
    done = tune(*BEST)
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1
    assert done.status == (0 if table == "x" else 2), "a file that cannot be read is a warning"
    assert tune("show", "vision/blur", "8").err.count("is not TOML") == (table == "x"), "and is told once"


@pytest.mark.slow
def test_a_shell_completes_verbs_kernels_and_options() -> None:
    def completed(*words: str) -> list[str]:
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "_TUNE_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("tune", *words)), "COMP_CWORD": str(len(words)),
        }  # fmt: skip
        code = "import sys; sys.argv = ['tune']; from tuner.__main__ import main; main()"
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert {"report", "reproduce"} <= set(completed("rep"))
    assert completed("best", "sgemm/03") == completed("sgemm/03") == ["sgemm/03_naive"]
    assert completed("best", "sgemm/03_naive", "--dev") == ["--device"]
    assert (
        completed("sgemm/03_naive", "64", "--device", "op") == completed("compare", "x", "--device", "op") == ["opencl"]
    )
    assert completed("sgemm/03_naive", "64", "--strategy", "brute") == ["brute_force"]
    assert completed("sgemm/03_naive", "64", "--objective", "time,reg") == ["time,registers"]
    assert completed("compare", "sgemm/02", "sgemm/03") == ["sgemm/03_naive"]


@pytest.mark.slow
def test_the_line_for_bash_completes_in_bash() -> None:
    line = 'eval "$(_TUNE_COMPLETE=bash_source tune)"'
    assert line in (ROOT / "docs/using.md").read_text()
    ask = 'COMP_WORDS=(tune best sgemm/03); COMP_CWORD=2; _tune_completion tune; echo "${COMPREPLY[@]}"'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"{line}\n{ask}"], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "sgemm/03_naive\n", done.stderr


def test_no_option_is_called_like_a_variable_that_means_something_else() -> None:
    taken = {"STATE", "CACHE", "SPACES", "CUDA", "TURNS", "MISSED"}
    context = click.Context(app.cli)
    commands = [app.cli.get_command(context, name) for name in app.cli.list_commands(context)]
    parameters = [each for command in commands if command for each in command.params if isinstance(each, click.Option)]
    assert not {option.lstrip("-").upper().replace("-", "_") for each in parameters for option in each.opts} & taken
