"""The first call of a problem tunes it: once for all processes, beside the arrays of the call."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from helpers.own_kernels import scaled
from tuner.errors import RequestError
from tuner.families import family
from tuner.families.dispatcher import Dispatcher
from tuner.families.first_call import FirstCall
from tuner.families.loader import Loader
from tuner.store.store import Store


def handle(file: Path, results: Path, budget: str = "1s", is_capturing: bool = False) -> Dispatcher:
    first_call = FirstCall(budget, lambda: is_capturing)
    return Dispatcher(Loader(family.find(file), None, False, {}, {}, results, None, first_call=first_call))


def arrays(handle: Dispatcher, n: int) -> list[np.ndarray[tuple[int], np.dtype[np.float32]]]:
    return [np.full(n, 1.0 + i, np.float32) for i, _ in enumerate(handle.family.operation.arrays)]


@pytest.mark.slow
def test_callers_at_once_share_one_tuning_and_its_record(tmp_path: Path) -> None:
    file, results = scaled(tmp_path, "twice"), tmp_path / "results"
    handles = [handle(file, results) for _ in range(2)]
    given = [arrays(each, 64) for each in handles]
    calls = [threading.Thread(target=each, args=own) for each, own in zip(handles, given, strict=True)]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for call in calls:
            call.start()
        for call in calls:
            call.join()
        handles[0](*given[0])
    assert [str(each.message).partition("/")[2][:38] for each in said] == ["twice at n=64: the first call tunes it"]
    assert len(Store(family.find(file).spaces[0].name, results).records) == 1
    for each, own in zip(handles, given, strict=True):
        assert each.kernel(*own).match == "exact"


def test_a_call_that_cannot_tune_says_so(tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    refusing = handle(file, tmp_path, is_capturing=True)
    with pytest.raises(RequestError, match="twice at n=64 is not tuned, and a CUDA graph is being captured; call it"):
        refusing(*arrays(refusing, 64))
    with pytest.raises(RequestError, match="budget='soon': write a time: 90s, 2m or 1h"):
        handle(file, tmp_path, "soon")


@pytest.mark.slow
def test_a_tuning_that_fails_says_why(tmp_path: Path) -> None:
    file = scaled(tmp_path, "twice")
    (tmp_path / "twice.c").write_text((tmp_path / "twice.c").read_text().replace("2 *", "3 *"))
    failing = handle(file, tmp_path / "results")
    own = arrays(failing, 64)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        failing(*own)
    assert "twice at n=64: not tuned: " in str(said[1].message)
    assert "wrong result" in str(said[1].message)
    assert failing.kernel(*own).match == "default"
