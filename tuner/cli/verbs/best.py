"""`tune best`: the best known configuration."""

from __future__ import annotations

import click

from tuner.cli import output
from tuner.cli.options import JSON, KERNEL, RESULTS, SET, SIZE, TARGET_DEVICE, TYPES, Asked, asked


@click.command()
@KERNEL
@SIZE
@TARGET_DEVICE
@SET
@TYPES
@RESULTS
@JSON
@asked
def command(question: Asked, as_json: bool) -> None:
    """Show the best known configuration of KERNEL at SIZE.

    It comes from the store: from this device at this size; else it is what the times at other sizes predict, where that
    proves better than the nearest size; else it is from the nearest size, or from the most similar device. Where no
    record fits, it is the kernel's default. Where trials of this problem wait for their finals, you are told.

    Example: tune best sgemm/07_tiled_1xn 4096
    """
    from tuner import devices
    from tuner.cli.screen.pending_finals import PendingFinals
    from tuner.exchange.exports.target import choose_target
    from tuner.launch import launcher
    from tuner.space.texts import config_text, options_texts, problem_text, size_text, types_text

    problem, device = question.problem(), question.device
    space = problem.space
    if device is None or devices.is_name(device):
        local_device = devices.open_device(devices.for_space(space, device))
        scope = problem.scope(local_device.language, local_device.limits)
        name, best = local_device.name, launcher.find(space, scope, local_device, question.results)
    else:  # a device that the store knows
        target = choose_target(problem, device)
        name, best = target.device.name, target.best
    output.warn(best.notes)
    record = best.record
    about = {"kernel": space.name, "device": name, "size": problem.sizes, "types": problem.types}
    about["options"] = problem.options
    match = {"match": best.match, "variant": best.variant, "stale": best.stale, "regret": best.regret}
    rejected = {"rejected": best.rejected or None}
    waiting = None if best.match == "exact" and not best.stale else PendingFinals.of(problem, name, question.kernel)
    waits = {"waiting": waiting and waiting.document}
    data = {**about, **match, **rejected, **waits, "config": best.config, "record": record and record.to_json()}
    how = f"{best.match}{', of a variant' if best.variant else ''}{', stale' if best.stale else ''}"
    how += "" if best.regret is None else f", expected regret {best.regret:.1%}"
    defaults = space.operation.options
    set_here, set_there = options_texts(problem.options, record.options if record else problem.options, defaults)
    where = f"{question.size or size_text(problem.sizes)}{types_text(problem.types)}{set_here}"
    lines = [f"{space.name} at {where} on {name}: {how}"]
    if record is None:
        is_right = waiting is not None and waiting.has_verified(best.config)
        verified = "the search has verified" if is_right else "nobody has verified"
        verdict, why = ("failed verification", f": {best.rejected}") if best.rejected else (verified, "")
        lines.append(f"no record; the default, which {verdict}: {config_text(best.config)}{why}")
    else:
        if best.match != "exact":
            lines.append(f"measured on {record.device} at {problem_text(record.sizes, record.types)}{set_there}:")
        lines.append(output.runner_up(record, best.rank) if best.rank else output.best(record, space))
    if waiting is not None:
        lines += waiting.lines
    output.answer(as_json, data, "\n".join(lines))
