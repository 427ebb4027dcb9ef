"""The comparison of a record: how its best's time compares with the default's and the vendor library's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tuner.measure.timing.clock import NOISE, spread

if TYPE_CHECKING:
    from tuner.tuning.finals.finalist import Finalist
    from tuner.tuning.finals.selection import Selection
    from tuner.tuning.ledger.trial import Trial


def of(selection: Selection, default: Trial | None) -> dict[str, Any]:
    """The fields of a record that compare the winner of the finals with the default and the vendor library. `default`
    is the default's trial in the search."""
    library, best_library = selection.finals.library, selection.finals.best_library
    best = selection.finalists[0]
    final = best.final
    # By configurations: a trial that was measured again stands in the ledger in place of the one that was a finalist.
    of_default = None if default is None else default.config
    default_finalist = next((each for each in selection.finalists if each.trial.config == of_default), None)
    default_final = default_finalist.final if default_finalist else None
    return {
        "library": library.library if library else None,
        "library_ms": library.time_ms if library else None,
        "vs_library": library.time_ms / final.time_ms if library else None,
        "best_library": best_library.library if best_library else None,
        "best_library_ms": best_library.time_ms if best_library else None,
        "vs_best_library": best_library.time_ms / final.time_ms if best_library else None,
        "default_ms": default_final.time_ms if default_final else default.time_ms if default else None,
        "default_spread": default_final.spread if default_final else None,
        "least_gain": least_gain(best, default_finalist) if default_finalist else None,
    }


def least_gain(best: Finalist, default: Finalist) -> float:
    """The gain by the shortest times. If the times of the finals are noise, the search's count, too: in a few rounds,
    other programs may have slowed down every run of one of the two."""
    is_noise = any(spread(each.final.times) > NOISE for each in (best, default))

    def shortest(finalist: Finalist) -> float:
        trials = (finalist.trial, finalist.searched) if is_noise else ()
        return min([*finalist.final.times, *(time_ms for trial in trials for time_ms in trial.outcome.times)])

    return shortest(default) / shortest(best)
