"""The page about CI: its commands and its workflow, as written."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from helpers.documents import TEXTS, blocks
from helpers.packages import entry_point, image, in_image, instructions
from helpers.processes import Done, Tune
from helpers.records import KERNEL, at
from tuner.store.store import Store
from tuner.tuning.checking import contest

PAGE = TEXTS["docs/ci.md"]
SMALL = "100000"  # in the place of the page's size, with which a processor is busy for seconds


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *author, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the README's kernel, as the page has it, in a repository with nothing committed."""
    root = tmp_path / "project"
    (root / "kernels").mkdir(parents=True)
    for text in blocks(TEXTS["README.md"], "c", "yaml"):
        if named := re.match(r"(?://|#) (twice\.\w+)\n", text):
            (root / "kernels" / named[1]).write_text(text)
    (settings,) = blocks(PAGE, "toml")
    (root / "tuner.toml").write_text(settings)
    git(root, "init", "-q", "-b", "main")
    return root


def workflows() -> list[Any]:
    return [yaml.safe_load(text) for text in blocks(PAGE, "yaml")]


@pytest.mark.slow
def test_the_page_s_commands_and_its_workflow_do_what_it_says(
    project: Path, tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(contest, "FINAL_SECONDS", 0.1)

    def run(line: str) -> Done:
        program, *words = shlex.split(line, comments=True)
        if program == "git":
            git(project, *words)
            return Done(0, "", "")
        if program == "echo":
            (project / words[1].removeprefix(">>")).write_text(f"{words[0]}\n")
            return Done(0, "", "")
        assert program == "tune"
        words = [SMALL if word == "1000000" else word for word in words]
        of_kernel = ["--device", "opencl", "--budget", "1"] if words[0].endswith(".yaml") else []
        return tune(*words, *of_kernel)

    for line in blocks(PAGE, "sh")[0].splitlines():
        done = run(line)
        assert done.status == 0, (line, done.err)
    assert "1 record: 1 unchanged" in done.out
    gate, nightly = workflows()
    for line in (step["run"] for step in nightly["jobs"]["tune"]["steps"] if "run" in step):
        done = run(line.replace("--fail-above 1.5", "--fail-above 1000").replace("--budget 10m", ""))
        assert done.status == 0, (line, done.err)
    assert done.out.startswith(f"mine/twice at n={SMALL}: ")
    origin = tmp_path / "origin"
    git(tmp_path, "clone", "-q", "--bare", str(project), str(origin))
    git(project, "remote", "add", "origin", str(origin))
    git(project, "fetch", "-q", "origin")
    kernel = project / "kernels/twice.cu"
    slower = "for (volatile int again = 0; again < 10; again++);"
    kernel.write_text(kernel.read_text().replace("if (i < n)", f"{slower}\n    if (i < n)"))
    git(project, "checkout", "-q", "-b", "slower")
    git(project, "commit", "-qam", "slower")
    steps = gate["jobs"]["check"]["steps"]
    (line,) = (step["run"] for step in steps if "run" in step)
    uploaded = next(step["with"]["path"] for step in steps if "upload-artifact" in step.get("uses", ""))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    failed = run(line.replace("${{ github.base_ref }}", "main"))
    assert failed.status == 1, failed.err
    assert f"FAILED: mine/twice at n={SMALL}: slower" in failed.out
    assert "failed" in (tmp_path / "summary").read_text()
    assert ElementTree.parse(project / uploaded).getroot().get("failures") == "1"
    git(project, "revert", "--no-edit", "HEAD")
    passed = run(line.replace("${{ github.base_ref }}", "main"))
    assert (passed.status, passed.out) == (
        0,
        f"mine/twice at n={SMALL}: unchanged: the same source and configuration\n1 record: 1 unchanged\n",
    )


@pytest.mark.slow
def test_the_steps_of_the_image_install_what_its_command_runs(
    project: Path, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    """Without a daemon of containers: see `helpers.packages`. The command is the page's, on this machine's CPU."""
    (lines,) = (text.splitlines() for text in blocks(PAGE, "sh") if "docker run" in text)
    words = shlex.split(next(line for line in lines if line.startswith("docker run")))
    folder = dict(instructions())["WORKDIR"]
    mounted = ["-v", f"$PWD:{folder}", "-v", "tuner:/root"]
    assert words[: words.index("tuner")] == ["docker", "run", "--rm", "--gpus", "all", *mounted]
    built = image(tmp_path_factory)
    root = tmp_path / "container"
    root.mkdir()
    for name in ("venv", "tuner"):
        (root / name).symlink_to(built / name)
    Path(f"{root}{folder}").symlink_to(project)
    of_image = [SMALL if word == "1000000" else word for word in words[words.index("tuner") + 1 :]]
    command = [*entry_point(), *of_image, "--device", "opencl", "--budget", "1"]
    done = in_image(root, command, folder)
    assert done.returncode == 0, done.stderr
    (record,) = Store("mine/twice", project / "results").records
    assert record.sizes == {"n": int(SMALL)}
    assert (root / "root/.local/state/tuner").is_dir(), "the ledger goes to the volume"


def test_git_merges_the_records_that_two_members_of_a_team_commit(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    git(tmp_path, "init", "-q", "-b", "main", str(first))
    for kind in ("gitignore", "gitattributes"):
        (text,) = blocks(TEXTS["docs/exchange.md"], kind)
        (first / f".{kind}").write_text(text)
    git(first, "add", ".")
    git(first, "commit", "-qm", "project")
    git(tmp_path, "clone", "-q", str(first), str(second))
    for member, records in ((first, [at(1024), at(4096, tile=8, time_ms=2.0)]), (second, [at(4096, tile=2), at(8192)])):
        for record in records:
            Store(KERNEL, member / "results").add(record)
        (member / "results/recordings").mkdir()
        (member / "results/recordings/log.json.gz").write_text(str(member))
        git(member, "add", "results")
        git(member, "commit", "-qm", "tuned")
    git(second, "pull", "-q", "--no-rebase", "--no-edit")
    merged = Store(KERNEL, second / "results")
    assert merged.problems == []
    assert {record.sizes["M"]: record.config for record in merged.records if record.time_ms == 1.0} == {
        size: at(size, tile=tile).config for size, tile in ((1024, 8), (4096, 2), (8192, 8))
    }
    listed = subprocess.run(["git", "ls-files"], cwd=second, capture_output=True, text=True, check=True).stdout.split()
    assert listed == [".gitattributes", ".gitignore", f"results/{KERNEL}.jsonl"]
