"""Run an experiment on the devices of this machine, stage by stage, with its references."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from tuner import devices
from tuner.errors import DeviceError, TunerError
from tuner.experiments.experiment import Experiment, PublishedRow, Table
from tuner.experiments.results import Measurement, Reproduction, RowResult
from tuner.experiments.stage import Audience, ReproductionRequest, Stage
from tuner.languages import LANGUAGES
from tuner.measure.method import LOOPS_TIMEOUT, TIMEOUT, check_timeout
from tuner.measure.process import scratch
from tuner.measure.process.supervisor import Supervisor
from tuner.measure.process.task import Task, announce
from tuner.quoting import quoted
from tuner.search.budget import Budget
from tuner.space import operation


def run(experiment: Experiment, request: ReproductionRequest, audience: Audience) -> Iterator[Reproduction]:
    """Measure stage by stage, and yield the results so far after each. A failing stage leaves out only its own rows.

    Raises RequestError if the request is wrong, DeviceError if this machine lacks the requested device.
    """
    Budget.parse(request.budget)
    if request.timeout is not None:
        check_timeout(request.timeout)
    if request.device is not None:
        kind, number = devices.split(request.device)
        if number >= devices.count(kind):
            raise DeviceError(f"device {quoted(request.device)}: this machine has no such device; see `tune devices`")
    tables = [[_left_out(row, "not measured: the run was interrupted") for row in t.rows] for t in experiment.tables]
    stages = [(number, stage) for number, table in enumerate(experiment.tables) for stage in _stages(table)]
    for number, positions in stages:
        table = experiment.tables[number]
        results = _stage(table, [table.rows[position] for position in positions], request, audience)
        for position, result in zip(positions, results, strict=True):
            tables[number][position] = result
        with_references = tuple(map(_with_references, experiment.tables, tables))
        yield Reproduction(experiment, with_references, finished=(number, positions) == stages[-1])


def _left_out(row: PublishedRow, reason: str) -> RowResult:
    return RowResult(row, Measurement(row.config or None, reason=reason), Measurement(reason=row.stage and reason))


def _stages(table: Table) -> list[list[int]]:
    """The positions of the rows of each stage."""
    positions: dict[str, list[int]] = {}
    for position, row in enumerate(table.rows):
        if row.stage is not None:
            positions.setdefault(row.stage, []).append(position)
    return list(positions.values())


def _with_references(table: Table, results: Sequence[RowResult]) -> tuple[RowResult, ...]:
    """The results of a table, with those of its references derived from the other rows."""
    return tuple(_reference(r.row, table, results) if r.row.reference else r for r in results)


def _reference(row: PublishedRow, table: Table, results: Sequence[RowResult]) -> RowResult:
    """The result of a reference: the vendor library's time in the rounds of the table's other rows, or the peak rate of
    their device."""
    measured = [r for r in results if r.is_measured and r.row.space and _has_grid(r.row.space.languages)]
    if not measured or table.operation is None:
        return _left_out(row, "no other row of the table was measured")
    device, scope = measured[0].device, measured[0].scope
    assert device is not None
    assert scope is not None
    work = operation.gflops(table.operation, scope, 1.0)  # GFLOP/s of a run that takes 1 ms
    library_ms = [result.library_ms for result in measured if result.library_ms is not None]
    if row.reference == "library" and library_ms:
        time_ms = median(library_ms)
    elif row.reference == "peak" and device.peak and work:
        time_ms = work / device.peak.gflops
    elif row.reference == "peak":
        return _left_out(row, f"{device.name} does not report its number of FP32 lanes and its clock")
    else:
        return _left_out(row, f"there is no vendor library for {device.name}")
    vs_library = median(library_ms) / time_ms if library_ms else None
    measurement = Measurement(time_ms=time_ms, gflops=work / time_ms if work else None, vs_library=vs_library)
    return RowResult(row, measurement, device=device, scope=scope)


def _stage(
    table: Table, rows: Sequence[PublishedRow], request: ReproductionRequest, audience: Audience
) -> list[RowResult]:
    """Measure the rows of one stage, on the request's device or else on the first device that can run it."""
    space = rows[0].space
    if space is None:
        return [_left_out(row, f"{row.stage} is not in the catalogue") for row in rows]
    try:
        device_id = devices.for_space(space, request.device)
        has_grid = _has_grid([devices.BACKENDS[devices.split(device_id)[0]].language])
        small = request.small or (has_grid and _is_processor(device_id))
        sizes = dict(table.small if small else table.sizes)
        timeout = request.timeout or (TIMEOUT if has_grid else LOOPS_TIMEOUT)
        task = Task(space, sizes, dict(space.operation.options), timeout=timeout)
        announce(space, audience.say)
        with scratch.file() as products, contextlib.closing(Supervisor(task, device_id, products)) as worker:
            worker.start()
            return Stage(worker, rows, request, audience).measure()
    except TunerError as error:  # mostly a DeviceError, which concerns every row of the stage
        return [_left_out(row, str(error)) for row in rows]


def _has_grid(languages: Iterable[str]) -> bool:
    """Whether one of `languages` runs kernels on a grid of threads, rather than as plain loops on the host."""
    return any(LANGUAGES[language].has_grid for language in languages)


def _is_processor(device_id: str) -> bool:
    """Whether the device is a CPU. Opens it only if its backend may offer CPUs."""
    if not devices.BACKENDS[devices.split(device_id)[0]].may_be_processor:
        return False
    with contextlib.closing(devices.open_device(device_id)) as device:
        return device.on_processor
