"""`tune compare`: show records side by side."""

from __future__ import annotations

from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import (
    COMPLETE_DEVICE,
    COMPLETE_KERNEL,
    JSON,
    check_file,
    output_option,
    with_kept_files,
    write_figure,
)


@click.command()
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL...", shell_complete=COMPLETE_KERNEL)
@click.option("--size", "sizes", multiple=True, metavar="SIZE", help="Only this size; may be given more than once.")
@click.option(
    "--device",
    "on",
    multiple=True,
    metavar="NAME",
    shell_complete=COMPLETE_DEVICE,
    help="Only devices of this kind, or whose name contains this; may be given more than once.",
)
@click.option(
    "--results",
    "stores",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Your store, used with the shipped one; two or more are compared with each other, without it.",
)
@output_option("FILE", "Page (.html) or chart (.svg, .png) to write.", "output_")
@JSON
@with_kept_files
def command(
    kernels: tuple[str, ...],
    sizes: tuple[str, ...],
    on: tuple[str, ...],
    stores: tuple[Path, ...],
    output_: Path | None,
    as_json: bool,
) -> None:
    """Compare records: of kernels, sizes, devices or stores.

    KERNEL is a name, a part of one, the path of a space file, a family such as `sgemm`, or a pattern such as
    'sgemm/1*'. Without --size and --device, all records of these kernels are compared.

    Example: tune compare sgemm --size 4096 --device H200 --output ladder.html
    """
    from tuner.report import comparison
    from tuner.report.pages import comparison_page, vega

    suffix = vega.suffix_of(output_) if output_ is not None else None
    if output_ is not None:
        check_file("--output", output_)
    result = comparison.compare(kernels, sizes, on, stores, lambda problem: output.warn([problem]))
    if output_ is not None and suffix is not None:
        is_page = suffix == ".html"
        content = comparison_page.html(result).encode() if is_page else comparison_page.picture(result, suffix)
        write_figure(output_, content)
    header, rows = comparison_page.table(result)
    data = {
        "varying": list(result.varying),
        "records": [
            {
                "kernel": c.kernel,
                "store": c.store or None,
                "record": {**c.record.to_json(), **vars(c.rates)},
                "as_fast_as_the_first": result.ratio(c),
                "verdict": result.verdict(c),
                "gain": c.gain,
                "gain_verdict": c.gain_verdict,
            }
            for c in result.competitors
        ],
        "file": output_ and str(output_),
    }
    lines = [result.title, output.table(header, rows), *([str(output_)] if output_ else [])]
    output.answer(as_json, data, "\n".join(lines))
