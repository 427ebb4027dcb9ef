"""Every test has folders of its own; builds are shared, because compiling again proves nothing.

Threads of OpenMP that wait leave the cores to other tests, and so does BLAS, which has one thread in each process: no
test needs more, and NumPy starts in half the time.
"""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema.protocols import Validator

gc.disable()  # until all tests are collected: what importing and collecting make stays
os.environ["OMP_WAIT_POLICY"] = "passive"
# PoCL builds without its optimizer, which would take most of the time where a kernel runs a few times.
os.environ["POCL_EXTRA_BUILD_FLAGS"] = "-cl-opt-disable"
# So does gcc, which takes longest for kernels in C that run once.
os.environ["CC"] = f"{os.environ.get('CC') or 'cc'} -O0"
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is imported
os.fsync = lambda _: None  # no test turns the machine off, and what most of them write is deleted before a disk has it

# The tests start hundreds of Python processes. Each would compile this package again if the environment, as in many
# containers, forbids Python to store bytecode.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

from helpers import BUILDS, ROOT, browser, modules, trimmed_pocl
from helpers.browser import Browser
from helpers.databases import Server
from helpers.folders import common
from helpers.kernels import Stage
from helpers.processes import Done, Tune
from helpers.short_finals import shorten
from tuner import devices, paths
from tuner.cli import app
from tuner.cli.screen.progress import STARTING
from tuner.devices import Device
from tuner.measure.process import compile_pool


def pytest_configure(config: pytest.Config) -> None:
    """The OpenCL builds of all processes of this run use one copy of PoCL."""
    if "PYTEST_XDIST_WORKER" in os.environ or not hasattr(config, "cache"):
        return
    if vendors := trimmed_pocl.vendors(config.cache.mkdir("pocl")):
        os.environ["OCL_ICD_VENDORS"] = str(vendors)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a new clone, each worker first imports its share of the test modules: what pytest makes of their assertions is
    written to files, which the others then read. Else each of them would do it for all modules, at the same time."""
    config = session.config
    if config.getoption("numprocesses", None):
        gc.enable()  # the process that only hears of tests collects none
        return
    os.environ["TUNER_CACHE"] = _cache(config._tmp_path_factory)  # tests take the forms of spaces that modules load
    if (worker := os.environ.get("PYTEST_XDIST_WORKER")) and config.args_source is config.ArgsSource.TESTPATHS:
        files = sorted(ROOT.joinpath("tests").rglob("test_*.py"))
        modules.load(files[int(worker.removeprefix("gw")) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])], config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that need a GPU run only if -m names them."""
    if "gpu" in config.option.markexpr:
        return
    deselected = [item for item in items if item.get_closest_marker("gpu")]
    config.hook.pytest_deselected(items=deselected)
    items[:] = [item for item in items if not item.get_closest_marker("gpu")]


def pytest_collection_finish() -> None:
    """What collection has made lives as long as the process: the garbage collector passes over it from here on, in this
    process and in those that are forked from it. It also comes less often, because memory is plenty."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


_unasked = itertools.count()  # numbers of the folders of tests that ask for none


def _cache(factory: pytest.TempPathFactory) -> str:
    return os.environ.get(BUILDS) or str(common(factory) / "cache")


@pytest.fixture(autouse=True)
def folders(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test depends on times, so none waits for another one's. Where a test asks for no folder, its own is made by
    whoever writes to it: most of those tests write nothing."""
    if "tmp_path" in request.fixturenames:
        folder: Path = request.getfixturevalue("tmp_path")
    else:
        folder = tmp_path_factory.getbasetemp() / f"unasked-{next(_unasked)}"
    monkeypatch.setenv("TUNER_TURNS", "")
    monkeypatch.setenv("TUNER_CACHE", _cache(tmp_path_factory))
    monkeypatch.setenv("TUNER_STATE", str(folder / "state"))
    monkeypatch.setenv("TUNER_RESULTS", str(folder / "results"))


@pytest.fixture(autouse=True)
def short_finals(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Finals of `tune` in this process are short.

    Tests about the precision of times, and those about faults that show in one of many runs, ask for `whole_finals`.
    """
    if "whole_finals" not in request.fixturenames:
        shorten(monkeypatch.setattr)


@pytest.fixture
def whole_finals() -> None:
    """Finals have as many rounds and compared runs as for a user."""


@pytest.fixture
def optimized(folders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL and C compilers build as users get it. PoCL's builds have a cache of their own."""
    monkeypatch.delenv("POCL_EXTRA_BUILD_FLAGS")
    monkeypatch.setenv("CC", os.environ["CC"].removesuffix(" -O0"))
    monkeypatch.setenv("TUNER_CACHE", f"{os.environ['TUNER_CACHE']}-optimized")


@pytest.fixture
def tune(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tune:
    """The `tune` command, in this process. What it says of its start-up is left out of `err`: that depends on time.

    It has one compile worker: starting a second one, as commands in processes of their own do, takes longer than what a
    test builds.
    """
    monkeypatch.setattr(compile_pool, "MOST_WORKERS", 1)

    def run(*arguments: str | Path) -> Done:
        monkeypatch.setattr(sys, "argv", ["tune", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            app.main()
        captured = capsys.readouterr()
        err = (line for line in captured.err.splitlines(keepends=True) if not line.startswith(STARTING))
        return Done(int(leaving.value.code or 0), captured.out, "".join(err))

    return run


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def server(postgresql: Server) -> Iterator[Server]:
    """The same server, which a test may stop."""
    yield postgresql
    if not postgresql.is_running():
        postgresql.start()


@pytest.fixture(scope="session")
def published() -> Validator:
    """The published schema of space files. Checking the schema itself takes much longer than using it."""
    from jsonschema.validators import validator_for

    from tuner.space.file.schema import json_schema

    schema = json_schema()
    validator: type[Validator] = validator_for(schema)
    validator.check_schema(schema)
    return validator(schema)


@pytest.fixture(scope="session")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser, if one is here."""
    if browser.program() is None:
        pytest.skip("no browser is here; `sh .ci/setup dev` installs chromium")
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def opencl() -> Iterator[Device]:
    device = devices.open_device("opencl")
    yield device
    device.close()


@pytest.fixture(scope="session")
def host() -> Device:
    return devices.open_device("host")


@pytest.fixture(scope="session")
def cuda() -> Iterator[Device]:
    device = devices.open_device("cuda")
    yield device
    device.close()


STAGE = """\
title: a test's own stage
operation: {root}/spaces/sgemm/operation.yaml
kernel: {kernel}
source: {source}
languages: [{languages}]
parameters: {parameters}
{more}
"""


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Writes a stage of the user's own: C source, entry point, parameters, any more YAML."""

    def write(text: str, kernel: str, parameters: str, languages: str = "c", more: str = "") -> Path:
        source = tmp_path / f"{kernel}.{'c' if languages == 'c' else 'cu'}"
        source.write_text(text)
        file = tmp_path / f"{kernel}.yaml"
        file.write_text(
            STAGE.format(root=ROOT, kernel=kernel, source=source, languages=languages, parameters=parameters, more=more)
        )
        return file

    return write


@pytest.fixture
def untuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No records ship: the best configuration is the default, or what a test says."""
    shipped = paths.shipped
    monkeypatch.setattr(paths, "shipped", lambda name: tmp_path / "none" if name == "results" else shipped(name))
