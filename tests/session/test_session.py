"""`tuner.tune` and `tuner.best` of a program: their results, and what they show."""

from __future__ import annotations

import html.parser
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tuner
from helpers import ROOT, terminal
from helpers.own_kernels import scaled
from helpers.python_spaces import scale
from helpers.short_finals import SHORT
from tuner.errors import NoConfiguration, RequestError
from tuner.session import bars

WRONG = (
    "void scale(float *y, const float *x, int n, float a) { for (int i = 0; i < n; i++) y[i] = a * x[i] + unroll - 2; }"
)

# No guard: whatever imports it again would print twice.
SCRIPT = f"""
{SHORT}
import tuner
from helpers.python_spaces import scale
print("a script")
factors = [1, 2]
space = scale(reference=lambda x, a: a * x, restrictions=[lambda unroll: unroll in factors], name="mine/scale")
print(tuner.tune(space, 500, device="host", repeats=2))
"""


class Texts(html.parser.HTMLParser):
    """The texts of the cells of a table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.cells.append(data)


@pytest.mark.slow
def test_a_result_has_the_best_and_every_trial_and_prints_as_a_line_and_a_table(
    capfd: pytest.CaptureFixture[str],
) -> None:
    space = scale(source=WRONG, parameters={"unroll": [1, 2, 3], "width": [1, 2]})
    with pytest.raises(NoConfiguration, match=r"scale: nothing is stored at n=300 on .*; call tuner.tune first"):
        tuner.best(space, 300, device="host")
    tuned = tuner.tune(space, (300,), device="host", budget=6, repeats=2, progress=False)
    shown = capfd.readouterr()
    assert (shown.out, shown.err) == ("", "")
    assert tuned.best is not None
    assert tuned.record is not None
    assert tuned.best["unroll"] == 2
    assert (tuned.best, tuned.time_ms, tuned.stored) == (tuned.record.config, tuned.record.time_ms, True)
    assert (tuned.sizes, tuned.kernel) == ({"n": 300}, space.name)
    assert len(tuned.trials) == 6
    assert len(tuned.failures) == 4
    table = tuned.to_pandas()
    assert list(table.columns) == ["unroll", "width", "time_ms", "runs", "failure", "log"]
    assert list(table.unroll[:2]) == [2, 2]
    assert table.time_ms[0] <= table.time_ms[1]
    assert set(table.failure[2:]) == {"wrong result"}
    assert repr(tuned).startswith(
        f"<{space.name} at n=300 on {tuned.device}: {tuned.time_ms:.4g} ms with unroll=2 width="
    )
    assert repr(tuned).endswith("; 6 of 6 configurations, 4 failed>")
    assert Texts(tuned._repr_html_()).cells[1:6] == ["unroll", "width", "time (ms)", "2", str(table.width[0])]
    assert tuner.best(space, 300, device="host") == tuned.best
    for kernel in (tuned.load(), tuner.load(space, 300, device="host", strict=True)):
        assert kernel.config == tuned.best
        y, x = np.zeros(300, np.float32), np.ones(300, np.float32)
        kernel(y, x)
        assert set(y) == {2.0}


@pytest.mark.slow
def test_a_file_is_tuned_by_its_path_and_a_run_without_a_right_configuration_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = scaled(tmp_path, "scale", 2)
    (tmp_path / "scale.c").write_text((tmp_path / "scale.c").read_text().replace("2 * x", "3 * x"))
    tuned = tuner.tune(file, device="host", repeats=1)
    assert (tuned.best, tuned.time_ms, tuned.record, tuned.stored) == (None, None, None, False)
    assert "no configuration is right: 2 wrong result, such as failed, wrong result" in repr(tuned)
    assert repr(tuned).endswith("; 2 of 2 configurations, 2 failed>")
    with pytest.raises(NoConfiguration, match="no configuration is right: 2 wrong result"):
        tuned.load()
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "\r" not in shown.err, "a pipe gets messages, and no bar"
    assert list(tuned.notes) == shown.err.splitlines()


@pytest.mark.slow
def test_a_script_needs_no_guard_and_its_terminal_shows_a_bar_which_is_gone_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    shown = terminal.run(str(tmp_path / "script.py"), columns=60, environment={"PYTHONPATH": path})
    assert shown.status == 0, shown.frames[-1]
    drawn = [row for rows in shown.frames for row in rows]
    assert any(row.startswith("opening host") for row in drawn)
    assert any(row.startswith("[") and "] mine/scale: " in row and "/4" in row for row in drawn)
    assert max(len(row) for row in drawn if row.startswith("[")) < 60
    rows = [row for row in shown.frames[-1] if row]
    assert rows.count("a script") == 1
    assert any(row.startswith("<mine/scale at n=500 on ") for row in rows)
    assert not any(row.startswith(("[", "opening")) for row in rows)


def test_a_notebook_has_a_bar_that_is_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages: list[str] = []
    handle = types.SimpleNamespace(update=pages.append)
    shell: Any = types.SimpleNamespace(kernel=object())
    display = types.SimpleNamespace(HTML=str, display=lambda page, display_id: (pages.append(page), handle)[1])
    notebook = types.SimpleNamespace(get_ipython=lambda: shell, display=display)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    bar = bars.suitable()
    bar.draw(0.25, "a<b: 1/4")
    bar.say("a message")
    bar.clear()
    assert pages == ['<div><progress value="0.250" max="1"></progress> <code>a&lt;b: 1/4</code></div>', ""]
    assert capsys.readouterr().err == "a message\n"
    shell = types.SimpleNamespace()
    assert isinstance(bars.suitable(), bars.PlainLines), "a terminal's IPython is no notebook"


@pytest.mark.parametrize(
    ("kernel", "keys", "message"),
    [
        (3, {}, "3 is not a kernel; write a tuner.Space, or a kernel's name or path"),
        (None, {"budget": 1.5}, "budget=1.5: write a number of configurations, or a time"),
        (None, {"size": "4x4"}, "n"),
        (None, {"repeats": 0}, "repeats=0: write a whole number from 1 to 1000"),
        (None, {"repeats": "3"}, "repeats='3': write a whole number"),
        (None, {"verify": -1}, "verify=-1: write a whole number from 228"),
        (None, {"seed": -1}, "seed=-1: write a whole number from 0"),
        (None, {"timeout": "90"}, "timeout='90': write a number"),
        (None, {"results": 3}, "results=3: write the path of a folder"),
        (None, {"options": [3]}, r"options=\[3\]: write a dictionary"),
        (None, {"strategy": 3}, "strategy=3: write a text"),
        (None, {"progress": 3}, "progress=3: write False"),
        (None, {"options": {"b": 1}}, "option b: no such option"),
        (None, {"strategy": "best"}, "'best'"),
        (None, {"objective": "speed"}, "'speed'"),
        (None, {"storage": "mine"}, "^storage='mine': unknown kind of storage; write a URL"),
        (None, {"cluster": "mine"}, "^cluster='mine': not the address of a scheduler; write dask://"),
        (None, {"cluster": 3}, "cluster=3: write a text"),
        (
            scale(reference=lambda x, a: a * x),
            {"cluster": "dask://x"},
            "a function of this program, which the machines",
        ),
        (None, {"size": "1e3"}, "'1e3' is not a whole number from 1 on; write 1024$"),
    ],
)
def test_a_wrong_request_gives_one_message_before_anything_runs(kernel: Any, keys: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        tuner.tune(scale() if kernel is None else kernel, **{"device": "host", "progress": False, **keys})


def test_a_restriction_that_has_no_value_anywhere_says_why() -> None:
    space = scale(restrictions=[lambda unroll: None])
    with pytest.raises(NoConfiguration, match=r"at n=100: `<lambda> of [^`]*`: it returns None; return true or"):
        tuner.tune(space, 100, device="host", progress=False)


def test_a_look_up_says_what_is_wrong() -> None:
    for keys, message in (({"device": 3}, "device=3: write a text"), ({"options": 3}, "options=3: write a dictionary")):
        with pytest.raises(RequestError, match=message):
            tuner.best(scale(), 100, **keys)


def test_importing_the_functions_imports_nothing_heavy() -> None:
    heavy = ["kernel_tuner", "optuna", "pandas", "scipy", "pydantic", "yaml", "IPython", "rich", "tqdm"]
    script = f"import sys, tuner; tuner.tune, tuner.best, tuner.Space; print(sorted({{*{heavy!r}}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
