"""The results of `tune check` as files: JUnit's XML, which CI servers show, and a summary in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

from tuner.quoting import first_line, plain
from tuner.space.texts import config_text

if TYPE_CHECKING:
    from tuner.tuning.checking.checks import Check

MOST_REASON = 300  # characters of a reason in a table


def junit(checks: Sequence[Check], against: str) -> str:
    """A JUnit file with a test case for each record: losses and wrong results are failures, other faults errors."""
    failures, errors = (sum(kind(check) for check in checks) for kind in (_is_failure, _is_error))
    skipped = sum(check.was_skipped for check in checks)
    seconds = sum(check.seconds for check in checks)
    counts = f'tests="{len(checks)}" failures="{failures}" errors="{errors}" skipped="{skipped}" time="{seconds:.3f}"'
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites name="tune check" {counts}>',
        f"<testsuite name={_attribute(f'tune check against {against}')} {counts}>",
        *(line for check in checks for line in _case(check)),
        "</testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines) + "\n"


def _case(check: Check) -> list[str]:
    name = " on ".join(filter(None, (check.problem, check.device))) or "its file"
    about = f"classname={_attribute(check.kernel)} name={_attribute(name)}"
    text = f"{check.status}: {result(check)}"
    message = f"message={_attribute(first_line(text))}"
    if _is_failure(check) or _is_error(check):
        kind = "failure" if _is_failure(check) else "error"
        body = f"<{kind} type={_attribute(check.status)} {message}>{_text(text)}</{kind}>"
    elif check.was_skipped:
        body = f"<skipped {message}/>"
    else:
        body = f"<system-out>{_text(text)}</system-out>"
    return [f'<testcase {about} time="{check.seconds:.3f}">', body, "</testcase>"]


def _is_failure(check: Check) -> bool:
    return check.has_failed and check.status != "broken"


def _is_error(check: Check) -> bool:
    return check.status == "broken"


def summary(checks: Sequence[Check], against: str, allowed: float) -> str:
    """A summary in Markdown: what failed, and a table of all records."""
    failed = [check for check in checks if check.has_failed]
    title = "failed" if failed else "passed"
    lines = [f"## tune check against {_cell(against)}: {title}", "", totals(checks, allowed), ""]
    if checks:
        lines += ["| kernel | problem | result | time over the earlier | |", "|---|---|---|---|---|"]
    for check in checks:
        status = f"**{check.status}**" if check.has_failed else check.status
        problem = " on ".join(filter(None, (check.problem, check.device)))
        cells = [check.kernel, problem, status, _ratio(check), first_line(_more(check))[:MOST_REASON]]
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def totals(checks: Sequence[Check], allowed: float) -> str:
    """A sentence that counts the results: `3 records: 2 as fast, 1 slower; 1 above the allowed 1.05 x`."""
    counts = Counter(check.status for check in checks)
    parts = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    losses = sum(check.is_loss for check in checks)
    lost = f"; {losses} above the allowed {allowed:g} x" if losses else ""
    return f"{len(checks)} record{'' if len(checks) == 1 else 's'}: {parts}{lost}"


def result(check: Check) -> str:
    """What came of a record, without its status: the ratio and the times, or the reason."""
    return "; ".join(filter(None, (_ratio(check), _more(check))))


def _ratio(check: Check) -> str:
    if check.ratio is None:
        return ""
    low, middle, high = check.ratio
    return f"{middle:.3f} x ({low:.3f} to {high:.3f} in {check.rounds} rounds)"


def _more(check: Check) -> str:
    parts = []
    if check.time_ms is not None and check.earlier_ms is not None:
        parts.append(f"{check.time_ms:.4g} ms, earlier {check.earlier_ms:.4g} ms")
    if check.library and check.vs_library:
        parts.append(f"{check.vs_library:.1%} of {check.library}")
    if check.ratio is not None and check.config != check.earlier_config:
        parts.append(f"{config_text(check.config)} in place of {config_text(check.earlier_config)}")
    if check.reason:
        parts.append(check.reason)
    return "; ".join(parts)


def _attribute(text: str) -> str:
    return quoteattr(plain(text, keep=""))


def _text(text: str) -> str:
    return escape(plain(text))


def _cell(text: str) -> str:
    """Text in a cell of a Markdown table, in which nothing is markup."""
    line = plain(text, keep="").replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
    return line if line.startswith("**") else line.replace("*", "\\*").replace("_", "\\_")
