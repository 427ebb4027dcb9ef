"""Notebooks without Jupyter: run their cells, and render them as pages.

`python docs/hooks/notebook.py FILE` runs the cells of a notebook and stores their output and figures in it. Cells are
plain Python, so that they run alike in Jupyter.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]


def run(notebook: Notebook, file: str) -> None:
    """Run all code cells in order, in one namespace, and store their outputs."""
    import matplotlib

    matplotlib.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(_code(notebook), 1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.parse("".join(cell["source"])), f"{file}, cell {number}", "exec"), names)  # noqa: S102
        cell["execution_count"] = number
        cell["outputs"] = [*_streams(printed.getvalue()), *_pictures()]


def run_file(path: Path) -> None:
    """Run the notebook in a file, and store its outputs there."""
    read = json.loads(path.read_text(encoding="utf-8"))
    run(read, path.name)
    path.write_text(json.dumps(read, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _code(notebook: Notebook) -> list[Any]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _streams(text: str) -> list[Any]:
    return [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []


def _pictures() -> list[Any]:
    """The open figures as PNG outputs. Closes them."""
    from matplotlib import pyplot

    found = []
    for number in pyplot.get_fignums():
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png", dpi=100)
        data = {"image/png": base64.b64encode(file.getvalue()).decode() + "\n", "text/plain": ["<Figure>"]}
        found.append({"data": data, "metadata": {}, "output_type": "display_data"})
    pyplot.close("all")
    return found


def page(notebook: Notebook, name: str) -> tuple[str, dict[str, bytes]]:
    """The notebook as Markdown, and its pictures by file name, which begins with `name`."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(f"```python\n{text}\n```" if cell["cell_type"] == "code" else text)
        for output in cell.get("outputs", []):
            if output["output_type"] == "stream":
                parts.append(f"```text\n{''.join(output['text']).rstrip()}\n```")
            elif "image/png" in output.get("data", {}):
                picture = f"{name}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode(output["data"]["image/png"])
                parts.append(f"![Output of this cell]({picture})")
    return "\n\n".join(parts), pictures


if __name__ == "__main__":
    run_file(Path(sys.argv[1]))
