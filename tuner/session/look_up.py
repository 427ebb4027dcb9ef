"""`tuner.best`: the best configuration that the store has for a problem."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tuner import devices
from tuner.errors import NoConfiguration
from tuner.launch import launcher
from tuner.session import checks
from tuner.session.search import Kernel, loaded
from tuner.space.chosen import Chosen
from tuner.space.config import Config
from tuner.space.texts import problem_text

if TYPE_CHECKING:
    from tuner.space.parsing import Size


def best(
    kernel: Kernel,
    size: Size | None = None,
    *,
    device: str | None = None,
    options: Mapping[str, float] | None = None,
    types: Mapping[str, str] | None = None,
    results: str | Path | None = None,
) -> Config:
    """The best configuration of `kernel` at `size` that was tuned and stored for this problem on this device.

    For the arguments, see `tuner.tune`. Raises NoConfiguration if there is none; `tuner.load` would take the nearest.

    Example::

        import tuner

        tuned = tuner.tune("sgemm/01_host_blocked", 64, device="host", budget=2, progress=False)
        assert tuner.best("sgemm/01_host_blocked", 64, device="host") == tuned.best
    """
    checks.words(device=device)
    checks.folder(results=results)
    checks.named_values(options=options, types=types)
    space = loaded(kernel)
    chosen = Chosen.parse(space.operation, size, options, types)
    opened = devices.shared(devices.for_space(space, device))
    scope = chosen.scope(opened.language, opened.limits)
    candidate = launcher.find(space, scope, opened, None if results is None else Path(results))
    if not candidate.is_exact:
        problem = problem_text(chosen.sizes, chosen.types)
        raise NoConfiguration(f"{space.name}: nothing is stored at {problem} on {opened.name}; call tuner.tune first")
    return dict(candidate.config)
