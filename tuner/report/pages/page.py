"""Render a report as one self-contained HTML file: sections of charts and tables, and the scripts that draw them.

The page needs no network, and its Content-Security-Policy forbids every request.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.quoting import plain
from tuner.report.pages import vega
from tuner.report.pages.vega_lite import theme

if TYPE_CHECKING:
    from tuner.report.pages.vega_lite import Chart

LONG = 30  # characters; a longer cell fills a line of a phone's screen
_FOLDER = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the charts</a>
<header>
<h1>{title}</h1>
{lead}
{navigation}
</header>
<main id="main">
<noscript><p>The charts need JavaScript. The tables do not.</p></noscript>
{body}
</main>
<footer>{footer}</footer>
<script type="application/json" id="charts">{charts}</script>
<script type="application/json" id="themes">{themes}</script>
<script>{library}</script>
<script>{drawing}</script>
</body>
</html>
"""


@dataclass(frozen=True)
class Cell:
    """A table cell with a style: `code`, or `faded` (grey)."""

    text: Any
    code: bool = False
    faded: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: a header, and rows of texts, numbers, None and Cells. The first column names the row.

    `folded`, if given, hides the table behind this line until the reader clicks on it.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    folded: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a page: a title, and a chart, tables, or preformatted text. Empty lines divide its caption.

    In a wide window, two consecutive `half` sections are side by side.
    """

    name: str
    title: str
    caption: str = ""
    chart: Chart | None = None
    tables: Sequence[Grid] = ()
    text: str = ""
    half: bool = False

    @staticmethod
    def of(chart: Chart, *tables: Grid, half: bool = False) -> Section:
        """The section of a chart, with tables below it."""
        return Section(chart.name, chart.title, chart.caption, chart, tables, half=half)


def render(title: str, lead: Sequence[str], sections: Sequence[Section], footer: str) -> str:
    """The HTML page. `lead` are the lines below its title. Raises RequestError if vl-convert is not installed."""
    links = " ".join(f'<a href="#{section.name}">{_text(section.title)}</a>' for section in sections)
    navigation = f'<nav aria-label="Figures">{links}</nav>' if len(sections) > 1 else ""
    charts = {
        section.name: {"description": section.title, **_packed(section.chart.spec)}
        for section in sections
        if section.chart
    }
    body, rest = [], list(sections)
    while rest:
        section = rest.pop(0)
        if section.half and rest and rest[0].half:
            body.append(f'<div class="pair">\n{_section(section)}\n{_section(rest.pop(0))}\n</div>')
        else:
            body.append(_section(section))
    return _PAGE.format(
        policy=_POLICY,
        title=_text(title),
        style=(_FOLDER / "page.css").read_text(encoding="utf-8"),
        lead="\n".join(f"<p{' class=lead' if i == 0 else ''}>{_prose(line)}</p>" for i, line in enumerate(lead)),
        navigation=navigation,
        body="\n".join(body),
        footer=_text(footer),
        charts=_json(charts),
        themes=_json({"light": theme(dark=False), "dark": theme(dark=True)}),
        library=vega.script().replace("</script", "<\\/script"),
        drawing=(_FOLDER / "page.js").read_text(encoding="utf-8"),
    )


def _section(section: Section) -> str:
    parts = [f'<section id="{section.name}" aria-labelledby="title-{section.name}">']
    parts.append(f'<h2 id="title-{section.name}">{_text(section.title)}</h2>')
    if section.chart:
        parts.append(f'<div class="chart" id="chart-{section.name}"></div>')
    if section.caption:
        parts += [f'<p class="caption">{_prose(paragraph)}</p>' for paragraph in section.caption.split("\n\n")]
    parts += [_table(table, section.title) for table in section.tables]
    if section.text:
        parts.append(f'<pre tabindex="0">{_text(section.text)}</pre>')
    return "\n".join([*parts, "</section>"])


def _table(table: Grid, title: str) -> str:
    numeric = [all(_is_number(row[i]) for row in table.rows) for i in range(len(table.header))]
    css = [' class="number"' if is_numeric and i else "" for i, is_numeric in enumerate(numeric)]
    head = "".join(f'<th scope="col"{c}>{_text(name)}</th>' for c, name in zip(css, table.header, strict=True))
    lines = ["".join(map(_cell, row, css, table.header)) for row in table.rows]
    has_long = len(table.header) > 2 and any(_is_long(cell) for row in table.rows for cell in row)
    blocks = ' class="blocks"' * has_long  # in a narrow window each row becomes a block
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    markup = (
        f'<div class="wide" tabindex="0" role="region" aria-label="{_text(table.folded or title)}"><table{blocks}>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )
    return f"<details><summary>{_text(table.folded)}</summary>{markup}</details>" if table.folded else markup


def _is_number(cell: Any) -> bool:
    """Whether a cell is a number, a percentage, a factor or empty, so that it is right-aligned."""
    text = str(cell.text if isinstance(cell, Cell) else "" if cell is None else cell)
    plain_number = text.replace(",", "").removesuffix("%").removesuffix(" x")
    try:
        float(plain_number or 0)
    except ValueError:
        return False
    return True


def _is_long(cell: Any) -> bool:
    """Whether a cell is too long to share a line of a phone's screen."""
    return cell.code if isinstance(cell, Cell) else len(str(cell)) > LONG


def _cell(cell: Any, css: str, column: str) -> str:
    name = f' data-name="{_text(column)}"' if column else ""
    if isinstance(cell, Cell):
        inner = f"<code>{_text(cell.text)}</code>" if cell.code and cell.text else _text(cell.text)
        classes = " ".join(filter(None, ("number" if css else "", "same" if cell.faded else "")))
        return f'<td class="{classes}"{name}>{inner}</td>' if classes else f"<td{name}>{inner}</td>"
    return f"<td{css}{name}>{_text('' if cell is None else cell)}</td>"


def _text(text: object) -> str:
    return html.escape(plain(text))


def _prose(text: str) -> str:
    """Escaped sentences, in which words between backticks become code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", _text(text))


def _json(data: Any) -> str:
    """JSON for a script element, which it cannot end."""
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _packed(spec: Any) -> Any:
    """A specification with its rows of data stored as columns, which are shorter; page.js unpacks them."""
    if isinstance(spec, list):
        return [_packed(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    if isinstance(values := spec.get("values"), list) and values and all(isinstance(row, dict) for row in values):
        return {"columns": {name: [row[name] for row in values] for name in values[0]}}
    return {name: _packed(part) for name, part in spec.items()}
