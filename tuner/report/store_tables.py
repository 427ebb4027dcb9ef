"""Selection of the store's records for Markdown tables, and insertion of the tables into a file."""

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tuner import paths
from tuner.catalog import catalog, kernel_lists, wheels
from tuner.catalog.kernel_lists import CatalogEntry
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.report import markdown
from tuner.report.markdown import GALLERIES, LADDER_SIZE, ReportRow, family
from tuner.space.texts import options_text, short_size
from tuner.store.record import Record
from tuner.store.store import Place, Store

GIVEN = "given"  # `strategy` of records of a cover, whose configurations no search chose


def rows(
    device: str = "", results: Path | None = None, say: Callable[[str], None] = lambda text: None
) -> list[ReportRow]:
    """The records of all kernels, by kernel, device and size, the latest of a problem first.

    `device` is a kind of device, or part of a name. `say` receives a message for each line of a store file that is not
    a record, and for each file that is passed over because it is of a newer version or cannot be read. Raises
    RequestError if there are records, but none of `device`.
    """
    roots = [results or paths.user_results(), paths.shipped("results")]
    of_wheels = [wheel.folder / "results" for wheel in wheels.installed()[0]]
    files = {
        path.relative_to(root).with_suffix("").as_posix()
        for root in (*roots, *of_wheels)
        for path in root.rglob("*.jsonl")
    }
    table, reported = [], set[str]()
    for kernel in sorted(files):
        more = [Place(root / f"{kernel}.jsonl", kernel) for root in of_wheels]
        store = Store(kernel, results, more, passes_over=True)
        for problem in store.problems:
            if problem not in reported:  # each kernel's store repeats the problems of the folder
                say(problem)
            reported.add(problem)
        records = sorted((record for record in store.records if record.is_plain), key=lambda r: r.date, reverse=True)
        table += [ReportRow(kernel, r) for r in sorted(records, key=lambda r: (r.device, tuple(r.sizes.values())))]
    entries = kernel_lists.every()[0]
    current = {entry.name for entry in entries}
    defaults = default_options(entries, {row.kernel for row in table if row.record.options})
    table = [replace(row, options=changed_options(row.kernel, row.record, defaults)) for row in table]
    known = {row.record.key for row in table if row.kernel in current}
    table = [row for row in table if row.kernel in current or row.record.key not in known]  # drops renamed kernels
    matches = [row for row in table if device == row.record.kind or device.casefold() in row.record.device.casefold()]
    if table and not matches:
        names = ", ".join(sorted({row.record.device for row in table}))
        raise RequestError(f"--device {shown(device)}: the store has no records of such a device; it has {names}")
    return matches


def default_options(entries: Iterable[CatalogEntry], kernels: Container[str]) -> dict[str, Mapping[str, float]]:
    """The default options of those `kernels` that are among `entries`, by kernel."""
    wanted = [entry for entry in entries if entry.name in kernels]
    return {entry.name: space.operation.options for entry, space in catalog.loaded(wanted, [])}


def changed_options(kernel: str, record: Record, defaults: Mapping[str, Mapping[str, float]]) -> str:
    """`, alpha=2`: the options of a record that differ from the kernel's `defaults`; empty for an unknown kernel."""
    known = defaults.get(kernel, {})
    return options_text({name: value for name, value in record.options.items() if name in known}, known)


def tables(table: list[ReportRow]) -> dict[str, str]:
    """The Markdown tables by name: `results` and, if the store has records for them, `gains`, `ladder` and `gallery`.

    Kernels of galleries are only in `gallery`. Records of a cover are in none, unless the family has no others on the
    device.
    """
    searched = {(family(row.kernel), row.record.device) for row in table if row.record.strategy != GIVEN}
    table = [r for r in table if r.record.strategy != GIVEN or (family(r.kernel), r.record.device) not in searched]
    gallery = [row for row in table if family(row.kernel) in GALLERIES]
    stages = [row for row in table if family(row.kernel) not in GALLERIES]
    optional = {
        "gains": markdown.gains_table([row for row in stages if row.record.default_ms is not None]),
        "ladder": markdown.ladder_table([row for row in stages if short_size(row.record.sizes) == LADDER_SIZE]),
        "gallery": markdown.gallery_table(gallery),
    }
    return {"results": markdown.results_table(stages)} | {name: text for name, text in optional.items() if text}


def put_into(file: Path, tables: Mapping[str, str]) -> None:
    """Replace the text between `<!-- NAME: begin -->` and `<!-- NAME: end -->` in `file` by the table NAME.

    Tables without markers are skipped. Raises RequestError if no table has markers, or a begin marker has no end.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{shown(file)}: cannot be read: {error}") from None
    markers = {name: (f"<!-- {name}: begin -->", f"<!-- {name}: end -->") for name in tables}
    present = {name: pair for name, pair in markers.items() if pair[0] in text}
    if not present:
        lines = ", or ".join(f"{begin} and {end}" for begin, end in markers.values())
        raise RequestError(f"{file}: has no markers for a table; add the lines {lines}")
    for name, (begin, end) in present.items():
        head, _, rest = text.partition(begin)
        _, closing, tail = rest.partition(end)
        if not closing:
            raise RequestError(f"{file}: {begin} has no {end} after it; add it where the table ends")
        text = f"{head}{begin}\n{tables[name]}\n{end}{tail}"
    paths.replace(file, text.encode())
