"""`tune missed`: list, tune or forget the look-ups that found no exact record."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tuner.cli import output
from tuner.cli.options import JSON, VERBOSE, with_kept_files
from tuner.errors import RequestError, TunerError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.store.missed import Miss
    from tuner.tuning.driver import Result


@click.command()
@click.option("--budget", metavar="TIME", help="Tune them within this time, most used first: 90s, 10m, 1h.")
@click.option("--forget", metavar="KERNEL", help="Remove this kernel or family from the list.")
@VERBOSE
@JSON
@with_kept_files
def command(budget: str | None, forget: str | None, verbose: bool, as_json: bool) -> int:
    """List look-ups without an exact record, most used first; --budget tunes them.

    Programs that load or dispatch a kernel without an exact record add its problem to the list, each program once for
    each problem. A program with TUNER_MISSED=0 in its environment adds nothing. Tuning a problem removes it.

    Example: tune missed --budget 10m
    """
    from tuner.search.budget import Budget
    from tuner.store import missed
    from tuner.tuning.several import misses

    if budget is not None and forget is not None:
        raise RequestError("--budget and --forget: one tunes the list, the other removes from it; give one of them")

    seconds = None if budget is None else Budget.parse_time(budget)
    listed = misses.remaining()
    if forget is not None:
        names = {forget, *_address(forget)}
        forgotten = [miss for miss in listed if miss.kernel in names]
        if not forgotten:
            others = shown(", ".join(dict.fromkeys(miss.kernel for miss in listed)))
            hint = f"the list has: {others}" if others else "the list is empty"
            raise RequestError(f"--forget {quoted(forget)}: it is not on the list; {hint}")
        missed.forget(miss.key for miss in forgotten)
        output.answer(as_json, [asdict(miss) for miss in forgotten], f"{len(forgotten)} of {len(listed)} forgotten")
        return 0
    if seconds is None:
        output.answer(as_json, [asdict(miss) for miss in listed], _table(listed))
        if not listed:
            output.say("the list is empty")
        return 0
    from tuner.cli.screen import logs, progress
    from tuner.tuning.progress import Quiet

    tuned: list[tuple[Miss, list[Result]]] = []
    with progress.displayed() as listener, logs.printed(verbose, listener.noted):
        for miss, results in misses.tune_missed(listed, seconds, Quiet(listener.noted)):
            tuned.append((miss, results))
            for result in results:
                listener.noted(_result_line(result))
    exact = [miss for miss, results in tuned if results]
    left = [miss for miss in listed if miss not in exact]
    data = {"tuned": [asdict(miss) for miss in exact], "left": [asdict(miss) for miss in left]}
    output.answer(as_json, data, f"{len(exact)} of {len(listed)} tuned" + (f"; left:\n{_table(left)}" if left else ""))
    return 0 if not left else 1


def _address(kernel: str) -> list[str]:
    """The kernel's name on the list, which may differ from the given one; empty if there is no such kernel."""
    from tuner.catalog import catalog, kernel_names

    try:
        return [kernel_names.address(catalog.load(kernel))]
    except TunerError:
        return []


def _result_line(result: Result) -> str:
    from tuner.catalog import catalog
    from tuner.space.texts import config_text, full_problem_text

    assert result.record is not None
    operation = catalog.load(result.kernel).operation
    problem = full_problem_text(result.sizes, result.types, result.options, operation.options)
    return f"{result.kernel} at {problem}: {result.record.time_ms:.4g} ms: {config_text(result.record.config)}"


def _table(misses: list[Miss]) -> str:
    from tuner.devices.conditions import Conditions
    from tuner.space.texts import number_text, problem_text

    rows = [
        [
            miss.count,
            miss.kernel,
            problem_text(miss.sizes, miss.types),
            f"{miss.device} with {conditions}" if (conditions := Conditions(miss.conditions)) else miss.device,
            " ".join(f"{name}={number_text(value)}" for name, value in miss.options.items()),
        ]
        for miss in misses
    ]
    return output.table(["count", "kernel", "problem", "device", "options"], rows) if rows else ""
