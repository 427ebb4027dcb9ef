"""Each kernel of the folder `cheats` is refused for a reason of its own, and its honest twin is accepted.

Many of them are the same kernel without their cheat, which is judged once.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

import tuner
from helpers import ROOT
from tuner import devices
from tuner.catalog import catalog
from tuner.devices.built import build
from tuner.judging.candidate import CandidateText
from tuner.judging.verdict import REASONS, CandidateVerdict
from tuner.space.instance import Instance
from tuner.space.scope import Limits

FOLDER = Path(__file__).parent / "cheats"
SIZE, RUNS = 1000, 12  # of the vectors, and compared after those that are timed
ENDLESS = "hang", "patched_library"  # in C
DEVICES = {"c": "host", "cl": "opencl", "cu": "cuda"}  # by the suffix of cheats
SPACES = "blend", "count", "faint", "rows"
TRUE = "nothing"  # a cheat that is accepted, as it gains nothing


def space_of(file: Path) -> str:
    """The space against which a cheat is."""
    told = re.search(r"^// Against (\w+)\.", file.read_text(), re.MULTILINE)
    assert told is not None, file
    return told[1]


def cheats(suffix: str, space: str) -> dict[Path, set[str]]:
    """The files of cheats against a space, and the reasons of which each is refused for one."""
    found = dict[Path, set[str]]()
    for file in sorted(FOLDER.joinpath(suffix).iterdir()):
        told = re.search(r"^// Against (\w+). Refused for: (.+)$", file.read_text(), re.MULTILINE)
        assert told is not None, file
        if told[1] == space:
            found[file] = {*told[2].split(", ")}
    return found


def honest(file: Path) -> str:
    """What the preprocessor leaves of a cheat's honest twin, headers apart."""
    text = re.sub("(?m)^#include.*$", "", file.read_text())
    command = ["cc", "-E", "-P", "-DCHEAT=0", "-x", "c", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def judged(
    tmp_path: Path, files: Iterable[Path], space: str, device: str, timeout: float = 60
) -> list[list[CandidateVerdict]]:
    """The verdicts on these cheats, and those on their honest twins that differ."""
    several = [*files]
    twins = list[Path]()
    for file in {honest(file): file for file in several}.values():
        twins.append(tmp_path / f"{file.stem}_honest{file.suffix}")
        twins[-1].write_text(f"#define CHEAT 0\n{file.read_text()}")
    against = FOLDER / f"{space}{'_host' if device == 'host' else ''}.yaml"
    done = tuner.evaluate(
        [*several, *twins], against, SIZE, device=device, hidden=1, rounds=5, verify=RUNS, timeout=timeout
    )
    return [done.verdicts[: len(several)], done.verdicts[len(several) :]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "device", "space"),
    [
        pytest.param(suffix, device, space, marks=[pytest.mark.gpu] if device == "cuda" else [])
        for suffix, device in DEVICES.items()
        for space in SPACES
        if cheats(suffix, space)
    ],
)
def test_cheats_are_refused_for_their_own_reasons_and_honest_twins_accepted(
    tmp_path: Path, suffix: str, device: str, space: str
) -> None:
    expected = {file: codes for file, codes in cheats(suffix, space).items() if file.stem not in ENDLESS}
    own, twins = judged(tmp_path, expected, space, device)
    faults = [f"honest twin: {verdict.candidate}: {verdict.reasons}" for verdict in twins if not verdict.is_accepted]
    for verdict, (file, codes) in zip(own, expected.items(), strict=True):
        if codes == {TRUE}:
            assert verdict.is_accepted, verdict.reasons
            assert verdict.times[0].time_ms > 15, "its own clock stands still, the judge's does not"
        elif not {*verdict.codes} & codes:
            faults.append(f"{file.stem}: {verdict.verdict} {verdict.reasons}")
        assert not {*verdict.codes} - REASONS.keys()
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_launches_that_do_not_end_are_refused(tmp_path: Path) -> None:
    own, twins = judged(tmp_path, [FOLDER / f"c/{name}.c" for name in ENDLESS], "blend", "host", timeout=5)
    assert [verdict.codes for verdict in own] == [["timeout"]] * 2
    assert all(twin.is_accepted for twin in twins)


def test_the_page_names_every_cheat_and_every_reason() -> None:
    text = (ROOT / "docs/evaluate.md").read_text()
    rows = [line for line in text.splitlines() if re.search(r"\| (host|opencl|cuda)(, \w+)* \|", line)]
    names = {file.stem for folder in ("c", "cl", "cu") for file in FOLDER.joinpath(folder).iterdir()}
    assert len(rows) == len(names)
    assert re.findall(r"^\| `(\w+)` \| (.+) \|$", text.partition("| the code |")[2], re.MULTILINE) == [*REASONS.items()]


@pytest.mark.parametrize("file", sorted(FOLDER.joinpath("cu").iterdir()), ids=lambda file: file.stem)
def test_cheats_in_cuda_compile(file: Path) -> None:
    space = CandidateText.of(file).space(catalog.load(str(FOLDER / f"{space_of(file)}.yaml")))
    compiler = devices.compiler_for("cuda", "sm_90")
    scope = space.operation.scope({"n": SIZE}, dict(space.operation.options), "cuda", Limits(), {})
    assert build(compiler, Instance(space, {"threads": 64}, scope)).builds
