"""`tune replay`: a strategy run over a recorded space."""

from __future__ import annotations

from pathlib import Path

import click

from tuner import paths
from tuner.cli import output
from tuner.cli.options import JSON


@click.command()
@click.argument("cache", type=click.Path(path_type=Path))
@click.option("--strategy", metavar="NAME", help="As of `tune KERNEL SIZE`.")
@click.option("--budget", metavar="N", help="Configurations to try; all if omitted.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Of the strategy.")
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Configurations outstanding at a time, told in random order.",
)
@JSON
def command(cache: Path, strategy: str | None, budget: str | None, seed: int, workers: int, as_json: bool) -> int:
    """Run a strategy over a recorded space: CACHE is a Kernel Tuner cache (.json, .json.gz) or a T4 file.

    Example: tune replay recording.json.gz --strategy kt:genetic_algorithm --budget 100
    """
    from tuner.exchange import recording
    from tuner.exchange import replay as replays
    from tuner.search.strategies import Budget, check

    limit = Budget.parse(budget)
    check(strategy)
    recorded = recording.read(cache)
    done = replays.replay(recorded, strategy, limit, seed, workers)
    if as_json:
        output.document({
            "strategy": done.strategy,
            "seed": done.seed,
            "optimum_ms": done.optimum_ms,
            "evaluations": list(done.evaluations),
            "seconds_in_strategy": done.seconds_in_strategy,
            "kernel": recorded.kernel,
            "device": recorded.device,
            "configurations": len(recorded.entries),
        })  # fmt: skip
        return 0
    total = len(done.evaluations)
    failed = sum(time_ms is None for time_ms in done.evaluations)
    about = " on ".join(filter(None, (recorded.kernel, recorded.device))) or str(cache)
    ignored = f"; ignored, as torn or without all parameters: {recorded.ignored}" if recorded.ignored else ""
    click.echo(f"{paths.shown(about)}: {len(recorded.entries)} configurations{ignored}")
    click.echo(
        f"{done.strategy}: {total} evaluations, {failed} failed, {done.seconds_in_strategy:.2f} s in the strategy"
    )
    share = done.fraction(total)
    found = f"{done.optimum_ms / share:.4g} ms, {share:.1%} as fast as" if share else "none;"
    click.echo(f"best found: {found} the optimum, {done.optimum_ms:.4g} ms")
    for share in (0.10, 0.05, 0.01):
        needed = done.within(share)
        click.echo(f"within {share:.0%} of it: {f'after {needed} evaluations' if needed else 'never'}")
    return 0
