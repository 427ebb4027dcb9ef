"""The commands that the documents show: each says what there is, and runs where that needs no GPU and no minutes."""

from __future__ import annotations

import gzip
import importlib
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from helpers import ROOT
from helpers.documents import TEXTS, VERBS, all_commands_of, blocks, commands_of
from helpers.own_kernels import project
from helpers.processes import Tune
from tuner import devices
from tuner.experiments import reading
from tuner.families import family
from tuner.measure.method import parse_objectives
from tuner.search import strategies
from tuner.search.budget import Budget
from tuner.space import chosen_types, parsing, size_lists
from tuner.space.default import declared_or_first
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.size_lists import WeightedSize
from tuner.store.store import Store

pytestmark = pytest.mark.slow

LAUNCHING = {"kernel", "run", "record", "cover"}  # verbs whose device is one of this machine
WRONG = {"sgemm/03_naive 128 --device host"}  # its page says that it is an error
PLACEHOLDER = re.compile(r"[A-Z_/]{3,}")
ALONE = {"list", "devices", "report", "schema"}  # verbs that need no argument
LONG = {"check", "cover", "missed", "record", "reproduce"}  # verbs that take minutes, or need a repository
DEMANDING = {"--measure", "--counters", "--sustained", "--storage", "--flush", "--devices", "--write", "--fail-above"}
DRAWN = ("report --recording", "report sgemm/13", "report sgemm/07", "compare sgemm/13")  # as are pages in tests/report
SMALL = {  # what runs in place of a command that a GPU would run, or that takes seconds
    "gallery/coulomb 128x128x256 --device opencl --budget 20": "gallery/coulomb 16x16x16 --device opencl --budget 2",
    "best gallery/coulomb 128x128x256 --device opencl": "best gallery/coulomb 16x16x16 --device opencl",
    "run gallery/coulomb 128x128x256 --device opencl": "run gallery/coulomb 16x16x16 --device opencl",
    "report gallery/coulomb 128x128x256": "report gallery/coulomb 16x16x16",
    "validate spaces/sgemm/12_warptiled.yaml 4096 --compile": "validate spaces/sgemm/03_naive.yaml 4096 --compile",
    "sgemm/07_tiled_1xn 4096": "sgemm/07_tiled_1xn 16 --device opencl --budget 2",
    "run sgemm/07_tiled_1xn 4096": "run sgemm/07_tiled_1xn 16 --device opencl",
    "failures sgemm/07_tiled_1xn 4096": "failures sgemm/07_tiled_1xn 16",
    "history sgemm/07_tiled_1xn 4096": "history sgemm/07_tiled_1xn 16",
    "scale.yaml 1000000": "scale.yaml 10000 --device opencl --budget 2",
    "sgemm/01_host_blocked 96": "sgemm/01_host_blocked 16 --budget 3",
    "explain sgemm/01_host_blocked 96 --no-measure": "explain sgemm/01_host_blocked 16 --no-measure",
    "sgemm/01_host_blocked 96 --same-bits-as default": "sgemm/01_host_blocked 16 --same-bits-as default --budget 3",
    "sgemm/01_host_blocked 96 --same-bits-as record": "sgemm/01_host_blocked 16 --same-bits-as record --budget 3",
    "evaluate mine.c --against sgemm/01_host_blocked --sizes 48": (
        "evaluate mine.c --against sgemm/01_host_blocked --sizes 48 --rounds 5"
    ),
    "run kernels/twice.yaml 1000000 --device opencl": "run kernels/twice.yaml 1000 --device opencl",
    "axpy.yaml 1000000 --type real=float16": "axpy.yaml 1000 --type real=float16 --budget 2",
}
PAGES = [*dict.fromkeys(("README.md", "docs/start.md", "docs/using.md", *TEXTS))]  # in the order of a reader


def split(line: str) -> tuple[str, list[str]]:
    """The verb of a command, and its words."""
    verb, *rest = shlex.split(line)
    return (verb, rest) if verb in VERBS else ("kernel", [verb, *rest])


def why_not(line: str) -> str:
    """Why a command does not run here; empty where it does."""
    verb, words = split(line)
    if any(PLACEHOLDER.fullmatch(word) for word in words) or "URL" in words:
        return "a word stands in the place of something"
    if not words and verb not in ALONE:
        return "a sentence names the verb"
    if DEMANDING & {*words} or any(word.startswith(("cuda:", "https:")) for word in words):
        return "it needs GPUs, a server or a record, or writes the documents"
    if (
        verb in LONG
        or {"dispatch", "patch"} & {*words}
        or (verb == "kernel" and line not in SMALL and line not in WRONG)
    ):
        return "it takes minutes, or needs a GPU"
    if line.startswith(DRAWN):
        return "tests of reports draw such pages"
    return ""


def owned(page: str) -> list[str]:
    """The commands of a page that run, without those of earlier pages."""
    earlier = {line for other in PAGES[: PAGES.index(page)] for line in commands_of("tune", TEXTS[other])}
    return [line for line in commands_of("tune", TEXTS[page]) if line not in earlier and not why_not(line)]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that commands name, where they run."""
    return entered(furnished(tmp_path / "workplace"), monkeypatch)


@pytest.fixture(scope="module")
def showroom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with these files, which nobody changes."""
    return furnished(tmp_path_factory.mktemp("commands") / "workplace")


@pytest.fixture
def visited(showroom: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are checked in the showroom."""
    entered(showroom, monkeypatch)


def entered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TUNER_SPACES", str(folder / "vision/tuning"))
    monkeypatch.chdir(folder)
    return folder


def furnished(folder: Path) -> Path:
    """The new folder, with the files that commands name."""
    folder.mkdir()
    for page in (
        "docs/start.md",
        "docs/types.md",
        "docs/from-your-file.md",
        "docs/evaluate.md",
        "docs/cpp.md",
        "README.md",
    ):
        for text in blocks(TEXTS[page], "c", "cuda", "cpp", "yaml"):
            if named := re.match(r"(?://|#) ([\w/]+\.\w+)\n", text):
                (folder / named[1]).parent.mkdir(exist_ok=True)
                (folder / named[1]).write_text(text)
    for suffix in (".cu", ".yaml"):
        shutil.copy(folder / f"twice{suffix}", folder / "kernels")
        text = (folder / f"scale{suffix}").read_text()
        (folder / f"my_kernel{suffix}").write_text(text.replace("scale.cu", "my_kernel.cu"))
    recorded = ROOT / "results/recordings/06_tiled-4096.json.gz"
    shutil.copy(recorded, folder / "recording.json.gz")
    (folder / "cache.json").write_bytes(gzip.decompress(recorded.read_bytes()))
    for node in ("node1", "node2", "node1/results", "node2/results", "results/node0", "results/node1"):
        (folder / node / "sgemm").mkdir(parents=True)
        shutil.copy(ROOT / "results/sgemm/06_tiled.jsonl", folder / node / "sgemm")
    (folder / "results/recordings").symlink_to(ROOT / "results/recordings")
    for name in ("spaces", "docs", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    mine = folder / "mine"
    mine.mkdir()
    kernels = ROOT / "kernels/gallery"
    for file in (kernels / "rms_norm.cu", *kernels.glob("*.h"), ROOT / "spaces/gallery/rms_norm.yaml"):
        shutil.copy(file, mine)
    stems = ("blur", "filters/edges", "twice/plain", "twice/unrolled")  # of docs/projects.md
    vision = project(folder / "vision", 'name = "vision"\nspaces = ["tuning"]\n', *stems)
    (folder / "tuning").symlink_to(vision / "tuning")
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if owned(page)])
def test_a_documented_command_that_needs_no_gpu_and_no_minutes_runs(page: str, workplace: Path, tune: Tune) -> None:
    for line in owned(page):
        verb, words = split(SMALL.get(line, line))
        draft = workplace / f"{words[0].partition('.')[0]}.yaml" if verb == "new" else None
        answers = draft.read_text() if draft else ""
        if draft:
            draft.unlink()
        done = tune(*([] if verb == "kernel" else [verb]), *words)
        if "--verify-receipt" in words and done.status == 1:  # other tests run beside one of the two judgements
            assert all("as fast as the baseline then" in each for each in done.out.splitlines()), done.out
            continue
        assert done.status == (2 if line in WRONG else 0), (line, done.err)
        assert done.out or line in WRONG, line
        if draft:
            assert "# ?" in draft.read_text()
            draft.write_text(answers)


def check(line: str) -> None:
    """Raise an error where a command names a verb, option, kernel, size, type, device, strategy or objective that is
    not there, or launches a kernel that has no valid configuration."""
    verb, words = split(line)
    if not words or words[0] == "--version":  # of the command itself, not of a verb
        return
    given = VERBS[verb].make_context(verb, words).params
    strategies.check(given.get("strategy"))
    Budget.parse(given.get("budget"))
    parse_objectives(given.get("objective") or "time")
    if verb == "reproduce" and given["name"]:
        reading.find(given["name"])
    kernel = given.get("kernel")
    if not kernel or PLACEHOLDER.fullmatch(kernel) or "SIZE" in words:
        return
    spaces = family.find(kernel).spaces
    texts = [text for text in (given.get("size"), *given.get("sizes", ())) if text]
    for space in spaces:
        types = chosen_types.parse(given.get("types") or {}, space.operation)
        parsing.parse_options(given.get("options") or {}, space.operation, types)
        problems = size_lists.parse(texts, space.operation, types)
        for grid in given.get("size_lists", ()):
            assert ":" not in grid or size_lists.read(grid, space.operation, types)
        for name in (given.get("device") or "").split(","):
            if verb in LAUNCHING or devices.is_name(name):
                launches = len(spaces) == 1 and verb in LAUNCHING
                check_device(name, space, types, problems if launches else [])
            elif name:
                records = [record.device for each in spaces for record in Store.of(each).records]
                assert any(name in device for device in records), name


def check_device(name: str, space: Space, types: Mapping[str, str], problems: Sequence[WeightedSize]) -> None:
    """Raise an error where a device does not run a kernel, or has no valid configuration for one of the problems."""
    kinds = devices.kinds_of(space)
    kind = kinds[0] if name in ("", "all") else devices.split(name)[0]
    assert kind in kinds, f"{space.name} does not run on {kind}"
    backend = devices.BACKENDS[kind]
    limits = backend.limits_of(backend.common[-1])
    for problem in problems:
        scope = Scope(problem.sizes, space.operation.options, backend.language, limits, types)
        declared_or_first(space, scope)


@pytest.mark.parametrize("line", all_commands_of("tune"))
@pytest.mark.usefixtures("visited")
def test_a_documented_command_names_what_there_is(line: str) -> None:
    if line in WRONG:
        with pytest.raises(AssertionError, match="does not run on"):
            check(line)
    else:
        check(line)


@pytest.mark.usefixtures("visited")
def test_so_do_the_commands_of_pages_that_are_made_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs/hooks")
    course, reference, steps = map(importlib.import_module, ("course", "reference", "steps"))
    stages = course.pages(steps.ladders())
    for name, text in {**stages, **reference.pages()}.items():
        lines = commands_of("tune", f"```sh\n{''.join(blocks(text, 'sh'))}```\n")
        assert lines or ("command-line" not in name and name not in stages), name
        for line in lines:
            check(line)
