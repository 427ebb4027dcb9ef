"""`tune best`: show the best known configuration."""

from __future__ import annotations

import click

from tuner.cli import output
from tuner.cli.options import ProblemArguments, of_problem


@click.command()
@of_problem()
def command(arguments: ProblemArguments, as_json: bool) -> None:
    """Show the best known configuration of KERNEL at SIZE.

    Uses the first of these that exists: the record of this device and size; a prediction from times at other sizes,
    if it has proved better than the nearest size; the record of the nearest size; a record of the most similar device;
    the kernel's default. Also tells you if an interrupted search of this problem has yet to store a record.

    Example: tune best sgemm/07_tiled_1xn 4096
    """
    from tuner import devices
    from tuner.cli.screen.pending_finals import PendingFinals
    from tuner.devices.conditions import DEFAULT
    from tuner.exchange.exports.target import choose_target
    from tuner.launch import launcher
    from tuner.space.texts import config_text, options_texts, problem_text, size_text, types_text

    problem, device = arguments.problem(), arguments.device
    space = problem.space
    if device is None or devices.is_name(device):
        local_device = devices.open_device(devices.for_space(space, device))
        scope = problem.scope(local_device.language, local_device.limits)
        name, best = local_device.name, launcher.find(space, scope, local_device, arguments.results)
        conditions = local_device.conditions
    else:  # part of the name of a device in the store
        target = choose_target(problem, device)
        name, best, conditions = target.device.name, target.best, DEFAULT
    output.warn(best.notes)
    record = best.record
    about = {"kernel": space.name, "device": name, "size": problem.sizes, "types": problem.types}
    about["options"] = problem.options
    match = {"match": best.match, "variant": best.variant, "stale": best.stale, "regret": best.regret}
    rejected = {"rejected": best.rejected or None, "conditions": best.conditions or None}
    is_current = best.match == "exact" and not best.stale
    pending = None if is_current else PendingFinals.of(problem, name, arguments.kernel, conditions)
    waiting = {"waiting": pending and pending.document}
    data = {**about, **match, **rejected, **waiting, "config": best.config, "record": record and record.to_json()}
    quality = f"{best.match}{', of a variant' if best.variant else ''}{', stale' if best.stale else ''}"
    quality += ", imported" if record is not None and record.is_imported else ""
    quality += f", with {best.conditions}" if best.conditions else ""
    quality += "" if best.regret is None else f", expected regret {best.regret:.1%}"
    defaults = space.operation.options
    options, record_options = options_texts(problem.options, record.options if record else problem.options, defaults)
    size = f"{arguments.size or size_text(problem.sizes)}{types_text(problem.types)}{options}"
    lines = [f"{space.name} at {size} on {name}: {quality}"]
    if record is None:
        is_verified = pending is not None and pending.has_verified(best.config)
        verified = "was verified in the search" if is_verified else "is unverified"
        verdict, reason = ("failed verification", f": {best.rejected}") if best.rejected else (verified, "")
        lines.append(f"no record; the default, which {verdict}: {config_text(best.config)}{reason}")
    else:
        if best.match != "exact":
            lines.append(f"measured on {record.device} at {problem_text(record.sizes, record.types)}{record_options}:")
        lines.append(output.runner_up(record, best.rank) if best.rank else output.best(record, space))
    if pending is not None:
        lines += pending.lines
    output.answer(as_json, data, "\n".join(lines))
