"""The list of valid configurations, kept in the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.spaces import scope, space
from tuner.errors import RequestError
from tuner.search import listing
from tuner.search.listing import listed
from tuner.space.config import Value
from tuner.space.model import Space
from tuner.space.scope import Scope

PARAMETERS: dict[str, tuple[Value, ...]] = {"a": (1, 2, 4, 8), "b": (False, True), "word": ("x", "y"), "c": (0.5, 2.0)}
RESTRICTIONS = ["a <= M", "total < 9 or b", "max_threads >= a"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))


def made(restrictions: list[str] = RESTRICTIONS, total: str = "2 * a") -> Space:
    return space(PARAMETERS, restrictions, total=total)


def configs(of: Space, at: Scope) -> list[dict[str, Value]]:
    pool = listed(of, at)
    return [*pool.configs()]


def files() -> list[Path]:
    return sorted(listing.folder().iterdir())


def test_a_kept_list_is_the_list_in_its_order_and_types(monkeypatch: pytest.MonkeyPatch) -> None:
    first = configs(made(), scope(4))
    monkeypatch.setattr(listing, "enumerated", None)  # so that only the cache can give it
    again = configs(made(), scope(4))
    assert repr(again) == repr(first)
    assert [config for config in made().walk() if made().valid(config, scope(4))] == sorted(
        first, key=list(made().walk()).index
    )


@pytest.mark.parametrize(
    ("other", "at"),
    [
        (made(), scope(2)),
        (made([*RESTRICTIONS, "b"]), scope(4)),
        (made(total="4 * a"), scope(4)),
        (space({**PARAMETERS, "a": (1, 2)}, RESTRICTIONS, total="2 * a"), scope(4)),
    ],
)  # fmt: skip
def test_what_a_list_depends_on_makes_another_list(other: Space, at: Scope) -> None:
    kept = configs(made(), scope(4))
    assert configs(other, at) == configs(other, at) != kept
    assert len(files()) == 2


def test_a_list_serves_every_problem_that_its_restrictions_do_not_ask_for() -> None:
    anywhere = made(["total < 9 or b"])
    assert configs(anywhere, scope(4)) == configs(anywhere, scope(7, "opencl"))
    assert len(files()) == 1


def test_a_damaged_list_is_made_again() -> None:
    kept = configs(made(), scope(4))
    (file,) = files()
    file.write_bytes(file.read_bytes()[:-40] + bytes(40))
    assert configs(made(), scope(4)) == kept


def test_a_list_that_others_may_write_is_refused() -> None:
    configs(made(), scope(4))
    files()[0].chmod(0o666)
    with pytest.raises(RequestError, match="other users may write to it"):
        configs(made(), scope(4))


def test_old_lists_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_LISTS", 3)
    for size in range(1, 8):
        configs(made(), scope(size))
    assert len(files()) == 3
