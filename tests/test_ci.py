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
from helpers.processes import Done, Tune
from tuner.tuning.checking import contest

PAGE = TEXTS["docs/ci.md"]


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


@pytest.mark.slow
def test_the_page_s_commands_and_its_workflow_do_what_it_says(
    project: Path, tmp_path: Path, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setattr(contest, "FINAL_SECONDS", 0.5)

    def run(line: str) -> Done:
        program, *words = shlex.split(line, comments=True)
        if program == "git":
            git(project, *words)
            return Done(0, "", "")
        assert program == "tune"
        of_kernel = ["--device", "opencl", "--budget", "1"] if words[0].endswith(".yaml") else []
        return tune(*words, *of_kernel)

    for line in "".join(blocks(PAGE, "sh")).splitlines():
        done = run(line.replace("--fail-above 1.5", "--fail-above 1000"))
        assert done.status == 0, (line, done.err)
    assert "1 record: 1 unchanged" in done.out or " x its record (" in done.out
    origin = tmp_path / "origin"
    git(tmp_path, "clone", "-q", "--bare", str(project), str(origin))
    git(project, "remote", "add", "origin", str(origin))
    git(project, "fetch", "-q", "origin")
    kernel = project / "kernels/twice.cu"
    slower = "for (volatile int again = 0; again < 100; again++);"
    kernel.write_text(kernel.read_text().replace("if (i < n)", f"{slower}\n    if (i < n)"))
    git(project, "checkout", "-q", "-b", "slower")
    git(project, "commit", "-qam", "slower")
    (workflow,) = blocks(PAGE, "yaml")
    data: dict[str, Any] = yaml.safe_load(workflow)
    steps = data["jobs"]["check"]["steps"]
    (line,) = (step["run"] for step in steps if "run" in step)
    uploaded = next(step["with"]["path"] for step in steps if "upload-artifact" in step.get("uses", ""))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    failed = run(line.replace("${{ github.base_ref }}", "main"))
    assert failed.status == 1, failed.err
    assert "FAILED: mine/twice at n=1000000: slower" in failed.out
    assert "failed" in (tmp_path / "summary").read_text()
    assert ElementTree.parse(project / uploaded).getroot().get("failures") == "1"
    git(project, "revert", "--no-edit", "HEAD")
    passed = run(line.replace("${{ github.base_ref }}", "main"))
    assert (passed.status, passed.out) == (
        0,
        "mine/twice at n=1000000: unchanged: the same source and configuration\n1 record: 1 unchanged\n",
    )
