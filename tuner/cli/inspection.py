"""The verbs that only look: list, show, validate, schema, devices, report."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from tuner.cli import output
from tuner.cli.options import DEVICE, JSON, KERNEL, RESULTS, cli


@cli.command("list")
@JSON
def list_(as_json: bool) -> int:
    """The kernels that ship. Example: tune list --json"""
    from tuner.space import catalog

    rows = []
    for name in catalog.names():
        space = catalog.load(name)
        rows.append({
            "kernel": name,
            "title": space.title,
            "languages": list(space.languages),
            "parameters": len(space.parameters),
        })  # fmt: skip
    if as_json:
        output.document(rows)
    else:
        output.table(["kernel", "title", "languages", "parameters"], [list(row.values()) for row in rows])
    return 0


@cli.command()
@KERNEL
@click.argument("size", required=False, default="1024")
@DEVICE
@JSON
def show(kernel: str, size: str, device: str | None, as_json: bool) -> int:
    """The space of KERNEL at SIZE (1024 if omitted).

    Without --device, limits are those of a common GPU: 1024 threads and 48 KiB of shared memory a block, and compute
    capability 8.0.

    Example: tune show sgemm/06_tiled 4096
    """
    from tuner import devices
    from tuner.search.enumeration import count
    from tuner.space import catalog, operation
    from tuner.space.model import Limits, Scope

    space = catalog.load(kernel)
    sizes = operation.parse_size(size, space.operation)
    if device is None:
        language, limits = space.languages[0], Limits(compute_capability=8.0)
    else:
        opened = devices.open(devices.for_space(space, device))
        language, limits = opened.language, opened.limits
    scope = Scope(sizes, space.operation.options, language, limits)
    shown = {
        "kernel": space.name,
        "title": space.title,
        "languages": list(space.languages),
        "size": sizes,
        "configurations": count(space, scope),
        "parameters": {name: list(values) for name, values in space.parameters.items()},
        "restrictions": [{"that": r.that.text, "because": r.because} for r in space.restrictions],
        "default": dict(space.default),
        "source": str(space.source),
        "source_note": space.source_note,
    }
    if as_json:
        output.document(shown)
        return 0
    click.echo(f"{space.name}: {space.title}\n{shown['configurations']} configurations are valid at {size}")
    output.table(
        ["parameter", "values", "default"],
        [[n, " ".join(map(str, v)), space.default.get(n, "")] for n, v in space.parameters.items()],
    )
    for restriction in space.restrictions:
        click.echo(f"restriction {restriction}")
    click.echo(f"source {output.plain(space.source)}")
    return 0


@cli.command()
@click.argument("file", type=click.Path(path_type=Path))
@JSON
def validate(file: Path, as_json: bool) -> int:
    """Check a space file. Example: tune validate my_kernel.yaml"""
    from tuner.space import reader

    space = reader.read(file)
    summary = {"file": str(file), "valid": True, "kernel": space.name, "parameters": len(space.parameters)}
    if as_json:
        output.document(summary)
    else:
        click.echo(f"{output.plain(file)}: valid, {len(space.parameters)} parameters")
    return 0


@cli.command()
@click.option("--json", is_flag=True, hidden=True, help="It is JSON anyway.")
def schema(json: bool) -> int:
    """The JSON Schema of a space file, for editors. Example: tune schema > space.schema.json"""
    from tuner.space import schema as published

    output.document(published.json_schema())
    return 0


@cli.command()
@JSON
def devices(as_json: bool) -> int:
    """The devices of this machine. Example: tune devices --json"""
    from tuner import devices as all_devices

    found = []
    for name in all_devices.available():
        opened = all_devices.open(name)
        found.append(opened.describe())
        opened.close()
    if as_json:
        output.document(found)
    else:
        output.table(
            ["device", "name", "architecture", "toolchain"],
            [[d[k] for k in ("device", "name", "architecture", "toolchain")] for d in found],
        )
        if not found:
            output.say(
                "no devices: install gcc for host, a driver and pyopencl for opencl, a driver and pycuda for cuda"
            )
    return 0


@cli.command()
@click.option("--device", metavar="NAME", help="Records of devices whose name contains this.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Put them between FILE's markers.",
)
@RESULTS
@JSON
def report(device: str | None, write: Path | None, results: Path | None, as_json: bool) -> int:
    """Markdown tables of what the store holds. Example: tune report --device H200 --write README.md"""
    from tuner.store import report as reports

    rows = reports.rows(device or "", results, lambda problem: output.say(f"warning: {problem}"))
    if as_json:
        output.document([asdict(row) for row in rows])
    elif write is None:
        click.echo(output.plain("\n\n".join(reports.tables(rows).values())))
    else:
        reports.put_into(write, reports.tables(rows))
    return 0
