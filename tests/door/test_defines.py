"""With `defines`, a script's own macros stand in the place of those that parameters are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helpers.scripts_of_kernel_tuner import scale
from tuner.errors import RequestError

pytestmark = pytest.mark.slow
PARAMETERS: dict[str, list[Any]] = {"unroll": [1, 4], "width": [7]}
SOURCE = """
#if defined(width) || defined(kernel_tuner)
#error "a macro that the script does not define"
#endif
extern "C" float scale(float *y, const float *x, int n) {
    int width = 2;
    for (int i = 0; i < n; i++) y[i] = width * x[i];
    return TIME;
}
"""


@pytest.mark.parametrize(
    ("defines", "times"),
    [
        ({"TIME": 3}, [3, 3]),
        ({"TIME": "unroll"}, [1, 4]),  # the value of the parameter
        ({"TIME": "unroll", "unroll": "unroll"}, [1, 4]),
        ({"TIME": "(unroll + 1)"}, [2, 5]),
        ({"TIME": lambda config: config["unroll"] + config["width"]}, [8, 11]),
        ({"TIME": lambda config: "unroll", "unroll": 9}, [9, 9]),
    ],
)
def test_parameters_are_macros_only_if_defines_names_them(defines: dict[str, Any], times: list[float]) -> None:
    rows, _ = scale(source=SOURCE, parameters=PARAMETERS, defines=defines)
    assert [row.get("error_message", row.get("time")) for row in rows] == times


def test_what_no_macro_and_no_space_file_can_hold_is_named(tmp_path: Path) -> None:
    for defines, message in (
        ({"2K": 3}, "defines: '2K' is no name of a macro; use letters, digits and _"),
        ({"TIME": lambda config: 1 / 0}, "defines: TIME raises ZeroDivisionError: division by zero for {'unroll': "),
    ):
        with pytest.raises(RequestError, match=message):
            scale(source=SOURCE, parameters=PARAMETERS, defines=defines)
    with pytest.raises(RequestError, match="store: `kernel_source` or `defines` gives each configuration a source"):
        scale(source=SOURCE, parameters=PARAMETERS, defines={"TIME": "1 + 1"}, store=tmp_path)
    scale(source=SOURCE, parameters=PARAMETERS, defines={"TIME": "unroll"}, store=tmp_path)
    assert "-DTIME={unroll}" in (tmp_path / "scale.yaml").read_text()
