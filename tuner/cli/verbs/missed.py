"""`tune missed`: what look-ups had no exact record for."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from tuner.cli import output
from tuner.cli.options import JSON, VERBOSE
from tuner.errors import RequestError, TunerError
from tuner.quoting import quoted, shown

if TYPE_CHECKING:
    from tuner.store.missed import Miss
    from tuner.tuning.driver import Result


@click.command()
@click.option("--budget", metavar="TIME", help="Tune them within this time, most used first: 90s, 10m, 1h.")
@click.option("--forget", metavar="KERNEL", help="Take off the list what this kernel or family has missed.")
@VERBOSE
@JSON
def command(budget: str | None, forget: str | None, verbose: bool, as_json: bool) -> int:
    """List what programs loaded or dispatched without an exact record, most used first; with --budget, tune it.

    The list is a file of yours; `tune` takes what it tunes off it. Each program counts once for each problem. With
    TUNER_MISSED=0 in its environment, a program writes nothing.

    Example: tune missed --budget 10m
    """
    from tuner.search.budget import Budget
    from tuner.store import missed
    from tuner.tuning.several import misses

    if budget is not None and forget is not None:
        raise RequestError("--budget and --forget: one tunes what the other takes off the list; give one of them")

    seconds = None if budget is None else Budget.parse_time(budget)
    found = misses.remaining()
    if forget is not None:
        names = {forget, *_address(forget)}
        gone = [miss for miss in found if miss.kernel in names]
        if not gone:
            others = shown(", ".join(dict.fromkeys(miss.kernel for miss in found)))
            hint = f"on the list are: {others}" if others else "nothing is on the list"
            raise RequestError(f"--forget {quoted(forget)}: it has missed nothing; {hint}")
        missed.forget(miss.key for miss in gone)
        output.answer(as_json, [asdict(miss) for miss in gone], f"{len(gone)} of {len(found)} forgotten")
        return 0
    if seconds is None:
        output.answer(as_json, [asdict(miss) for miss in found], _table(found))
        if not found:
            output.say("nothing was missed")
        return 0
    from tuner.cli.screen import logs, progress
    from tuner.tuning.exploration import Quiet

    tuned: list[tuple[Miss, list[Result]]] = []
    with progress.displayed() as listener, logs.printed(verbose, listener.noted):
        for miss, results in misses.tune_missed(found, seconds, Quiet(listener.noted)):
            tuned.append((miss, results))
            for result in results:
                listener.noted(_told(result))
    exact = [miss for miss, results in tuned if results]
    left = [miss for miss in found if miss not in exact]
    data = {"tuned": [asdict(miss) for miss in exact], "left": [asdict(miss) for miss in left]}
    output.answer(as_json, data, f"{len(exact)} of {len(found)} tuned" + (f"; left:\n{_table(left)}" if left else ""))
    return 0 if not left else 1


def _address(kernel: str) -> list[str]:
    """What the list calls a kernel, whichever way it is named; nothing for what is no kernel."""
    from tuner.catalog import catalog, kernel_names

    try:
        return [kernel_names.address(catalog.load(kernel))]
    except TunerError:
        return []


def _told(result: Result) -> str:
    from tuner.catalog import catalog
    from tuner.space.texts import config_text, full_problem_text

    assert result.record is not None
    operation = catalog.load(result.kernel).operation
    problem = full_problem_text(result.sizes, result.types, result.options, operation.options)
    return f"{result.kernel} at {problem}: {result.record.time_ms:.4g} ms: {config_text(result.record.config)}"


def _table(misses: list[Miss]) -> str:
    from tuner.space.texts import number_text, problem_text

    rows = [
        [
            miss.count,
            miss.kernel,
            problem_text(miss.sizes, miss.types),
            miss.device,
            " ".join(f"{name}={number_text(value)}" for name, value in miss.options.items()),
        ]
        for miss in misses
    ]
    return output.table(["count", "kernel", "problem", "device", "options"], rows) if rows else ""
