"""`tuner.tune`: find, verify and store the fastest configuration of a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.catalog import catalog
from tuner.errors import OptionError, RequestError
from tuner.measure.method import (
    COMPARED_RUNS,
    MOST_COMPARED_RUNS,
    MOST_REPEATS,
    STANDARD,
    TIMEOUT,
    Method,
    parse_objectives,
)
from tuner.quoting import quoted
from tuner.session import checks
from tuner.session import progress as displays
from tuner.session.tuned import Tuned
from tuner.space import snapshot
from tuner.space.chosen import Chosen
from tuner.space.python.space import PythonSpace

if TYPE_CHECKING:
    from tuner.space.config import Value
    from tuner.space.model import Space
    from tuner.space.parsing import Size
    from tuner.tuning.progress import Progress

Kernel = str | Path | PythonSpace
MOST_SEED = 2**32 - 1


def tune(
    kernel: Kernel,
    size: Size | None = None,
    *,
    device: str | None = None,
    budget: int | str | None = None,
    strategy: str | None = None,
    options: Mapping[str, float] | None = None,
    types: Mapping[str, str] | None = None,
    results: str | Path | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,
    repeats: int = STANDARD.repeats,
    objective: str = STANDARD.objectives[0],
    full: bool = False,
    as_: str | None = None,
    flush: bool = False,
    fresh: bool = False,
    verify: int | None = None,
    sustained: bool = False,
    same_bits_as: str | Mapping[str, Value] | None = None,
    storage: str | None = None,
    cluster: str | None = None,
    progress: bool | Progress | None = None,
) -> Tuned:
    """Find the fastest configuration of `kernel` at `size`, verify it and store it, as `tune KERNEL SIZE` does.

    An interrupted call loses no finished trial: the same call continues.

    Args:
        kernel: A `tuner.Space`, a name from `tune list`, a unique part of one, or the path of a space file.
        size: The problem size, as for `tuner.load`. Not needed if the operation has a default for every size.
        device: A name such as "cuda:1", several separated by commas, or "all". Default: the first that suits.
        budget: The number of configurations to try, a time such as "90s" or "2m", or both: "100,2m". Default: all
            configurations.
        strategy: A search strategy. Default: brute_force if the budget covers all configurations, else optuna.
        options, types: As for `tuner.load`.
        results: A folder of records, instead of the user's.
        same_bits_as: Only configurations whose outputs have the same bits as those of "default", of "record", or of a
            configuration. `tuner.load` finds the result by the same argument.
        as_: How the program launches the kernel: "isolated", "graph", "stream", "eager" or "cold"; see "As deployed" in
            docs/measuring.md. `tuner.load` finds the result by the same argument.
        cluster: The address of a scheduler of Dask or Ray, such as "dask://host:8786" or "ray://host:10001", whose
            workers measure: see docs/machines.md. The kernel must have no functions of the program itself.
        progress: False shows nothing. By default, messages are shown, and a bar on a terminal or in a notebook. An
            object receives the events of the run instead.
        The others: the options of `tune KERNEL SIZE` with these names.

    Returns the result, which has no best configuration if every configuration failed. Raises RequestError for an
    invalid request, SpaceError for an invalid space, NoConfiguration if no configuration is valid at this size,
    DeviceError if no device is usable, and EnvironmentTrouble if a fault of the machine persists.

    Example::

        import tuner

        tuned = tuner.tune("sgemm/01_host_blocked", 64, device="host", budget=2)
        print(tuned)
        assert len(tuned.to_pandas()) == 2
    """
    checks.words(device=device, strategy=strategy, storage=storage, cluster=cluster, objective=objective)
    checks.folder(results=results)
    repeats = checks.whole("repeats", repeats, 1, MOST_REPEATS)
    deployment = checks.deployment(as_, flush)
    checks.named_values(options=options, types=types)
    with _listening(progress) as (listener, notes), snapshot.kept(listener.noted):
        space = loaded(kernel)
        listener.begun("loading the tuner")
        from tuner.tuning.driver import tune as driven  # Optuna and Kernel Tuner take long to import
        from tuner.tuning.request import TuningRequest

        sizes = Chosen.parse(space.operation, size, options, types).sizes
        request = TuningRequest(
            space,
            ",".join(f"{name}={value}" for name, value in sizes.items()),
            device=device,
            options=options or {},
            types=types or {},
            strategy=strategy,
            budget=checks.budget(budget),
            seed=checks.whole("seed", seed, 0, MOST_SEED),
            method=Method(repeats, deployment, parse_objectives(objective), race=not full),
            timeout=checks.number("timeout", timeout),
            fresh=fresh,
            verify=None if verify is None else checks.whole("verify", verify, COMPARED_RUNS, MOST_COMPARED_RUNS),
            sustained=sustained,
            same_bits_as=checks.whose_bits(same_bits_as),
            storage=storage,
            cluster=cluster,
            results=None if results is None else Path(results),
        )
        try:
            result = driven(request, listener)
        except OptionError as error:
            raise RequestError(error.in_python) from None
    return Tuned(result, space, tuple(notes))


def loaded(kernel: Any) -> Space:
    """The space of a kernel that a program names or has. Raises RequestError."""
    if isinstance(kernel, PythonSpace):
        return kernel.model
    if not isinstance(kernel, str | Path):
        raise RequestError(f"{quoted(kernel)} is not a kernel; write a tuner.Space, or a kernel's name or path")
    return catalog.load(str(kernel))


@contextlib.contextmanager
def _listening(progress: bool | Progress | None) -> Iterator[tuple[Progress, list[str]]]:
    """A block with the listener of a run, and the messages that it has received."""
    if progress is not None and not isinstance(progress, bool):
        if not hasattr(progress, "noted"):
            raise RequestError(f"progress={quoted(progress)}: write False, or leave it out")
        yield progress, []
        return
    with displays.shown(progress is not False) as shown:
        yield shown, shown.notes
