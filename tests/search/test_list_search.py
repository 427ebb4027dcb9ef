"""Ask and tell over a list of configurations: somebody's own loop."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

from helpers import ROOT
from tuner.search import ListSearch
from tuner.space.config import Config, config_key
from tuner.tuning.recordings import recording

RECORDED = recording.read(ROOT / "results/recordings/matmul-2048-NVIDIA_H200.json.gz")
TIMES = {
    config_key(dict(zip(RECORDED.parameters, row, strict=True))): entry.time_ms
    for row, entry in RECORDED.entries.items()
}
MATMUL: list[Config] = [dict(zip(RECORDED.parameters, row, strict=True)) for row in RECORDED.entries]
DEFAULT: Config = {"BM": 128, "BN": 128, "BK": 64, "GROUP": 8, "num_warps": 8, "num_stages": 3}
FEW: list[Config] = [{"threads": 32, "items": 2}, {"threads": 64, "items": 1}, {"threads": 64, "items": 2}]


def test_a_loop_of_ones_own_comes_near_the_best_kernel_in_triton_in_an_eighth_of_the_list() -> None:
    optimum = min(ms for ms in TIMES.values() if ms is not None)
    speeds = []
    for seed in range(5):
        search = ListSearch(MATMUL, seed=seed, first=[DEFAULT])
        asked = []
        for _ in range(64):
            config = search.ask()
            assert config is not None
            asked.append(config_key(config))
            search.tell(config, TIMES[config_key(config)])
        assert asked[0] == config_key(DEFAULT)
        assert len(set(asked)) == 64, "none is asked for twice"
        assert search.best is not None
        speeds.append(optimum / (TIMES[config_key(search.best)] or 0.0))
    assert median(speeds) >= 0.99


def test_any_number_may_be_in_progress_and_the_search_ends_with_the_list() -> None:
    search = ListSearch(FEW, seed=1)
    asked = [search.ask() for _ in range(4)]
    assert asked[3] is None
    assert sorted(map(str, asked[:3])) == sorted(map(str, FEW))
    assert search.best is None
    for config, ms in zip(reversed(asked[:3]), (3.0, None, 1.0), strict=True):
        assert config is not None
        search.tell(config, ms)
    assert search.best == asked[0]


@pytest.mark.parametrize("failure", [None, float("inf"), float("nan")])
def test_what_failed_is_never_the_best_and_is_not_asked_for_again(failure: float | None) -> None:
    search = ListSearch(FEW, seed=1)
    search.tell(FEW[0], failure)
    search.tell(FEW[1], 2.0)
    assert (search.ask(), search.ask(), search.best) == (FEW[2], None, FEW[1])
    search.tell(FEW[1], failure)
    assert search.best is None, "the latest result counts"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: ListSearch([]), "a pool without configurations; give at least one"),
        (lambda: ListSearch([*FEW, FEW[0]]), "occurs twice"),
        (lambda: ListSearch([*FEW, {"threads": 1}]), "has other parameters than threads, items; give each"),
        (lambda: ListSearch(FEW).tell({"threads": 1, "items": 2}, 1.0), "is not in the list of configurations"),
        (lambda: ListSearch(FEW).tell(FEW[0], "slow"), "'slow' is no result; tell a number, or None for"),  # type: ignore[arg-type]
        (lambda: ListSearch([{"tile": [2, 4]}]), r"tile = \[2, 4\]: cannot be compared; give a number"),  # type: ignore[dict-item]
        (lambda: ListSearch([{"tile": ([2], 4)}]), r"tile = \(\[2\], 4\): cannot be compared"),  # type: ignore[dict-item]
        (lambda: ListSearch(FEW).tell({**FEW[0], "items": [1]}, 1.0), "is not in the list"),  # type: ignore[dict-item]
        (lambda: ListSearch(FEW).tell(FEW[0], 10**400), "is no result; tell a number"),
    ],
)
def test_a_wrong_list_and_an_unknown_configuration_are_named(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()
