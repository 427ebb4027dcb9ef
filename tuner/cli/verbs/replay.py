"""`tune replay`: run a strategy over a recording."""

from pathlib import Path

import click

from tuner.cli import numbers, output
from tuner.cli.options import COMPLETE_STRATEGY, JSON, SEED
from tuner.quoting import shown


@click.command()
@click.argument("cache", type=click.Path(path_type=Path))
@click.option(
    "--strategy", metavar="NAME", shell_complete=COMPLETE_STRATEGY, help="Search strategy, as for `tune KERNEL SIZE`."
)
@click.option("--budget", metavar="N", help="Number of configurations to try; all if omitted.")
@SEED
@click.option(
    "--workers",
    type=numbers.Whole(1, 1024),
    metavar="N",
    default=1,
    show_default=True,
    help="Simulated workers: configurations in progress at a time, which finish in random order.",
)
@JSON
def command(cache: Path, strategy: str | None, budget: str | None, seed: int, workers: int, as_json: bool) -> None:
    """Run a search strategy over a recording, without a device.

    CACHE is a Kernel Tuner cache file (.json, .json.gz), such as `tune record` writes, or a T4 file. Shows after how
    many configurations the strategy came within 10, 5 and 1 % of the recorded optimum.

    Example: tune replay cache.json --strategy kt:genetic_algorithm --budget 100
    """
    from tuner.exchange import replay as replays
    from tuner.search.budget import Budget
    from tuner.search.strategies import check
    from tuner.tuning.recordings import recording as recordings

    limit = Budget.parse(budget)
    check(strategy)
    recording = recordings.read(cache)
    replay = replays.replay(recording, strategy, limit, seed, workers)
    output.warn(replay.notes)
    count, evaluations = len(recording.entries), len(replay.evaluations)
    data = {
        "strategy": replay.strategy,
        "seed": replay.seed,
        "optimum_ms": replay.optimum_ms,
        "evaluations": list(replay.evaluations),
        "seconds_in_strategy": replay.seconds_in_strategy,
        "kernel": recording.kernel,
        "device": recording.device,
        "configurations": count,
        "verified": recording.about.get("verified"),
    }
    title = " on ".join(filter(None, (recording.kernel, recording.device))) or str(cache)
    ignored = f"; ignored, as incomplete: {recording.ignored}" if recording.ignored else ""
    doubt = "; unverified" if recording.is_unverified else ""
    failed = sum(time_ms is None for time_ms in replay.evaluations)
    fraction = replay.fraction(evaluations)
    best = f"{replay.optimum_ms / fraction:.4g} ms, {fraction:.1%} as fast as" if fraction else "none;"
    lines = [
        f"{shown(title)}: {count} configurations{ignored}{doubt}",
        f"{replay.strategy}: {evaluations} evaluations, {failed} failed, "
        f"{replay.seconds_in_strategy:.2f} s in the strategy",
        f"best found: {best} the optimum, {replay.optimum_ms:.4g} ms",
    ]
    for share in (0.10, 0.05, 0.01):
        reached = replay.within(share)
        lines.append(f"within {share:.0%} of it: {f'after {reached} evaluations' if reached else 'never'}")
    output.answer(as_json, data, "\n".join(lines))
