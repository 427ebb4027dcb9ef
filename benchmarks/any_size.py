"""`tuner.dispatch` at sizes without records, compared with cuBLAS and with the results of tuning at these sizes.

    python benchmarks/any_size.py --draw 20 > benchmarks/sizes/any_size.txt  # once, before anything was tuned
    python benchmarks/any_size.py sgemm --searches found --tune-seconds 20
    python benchmarks/any_size.py gemm16 --type real=bfloat16 --sizes benchmarks/sizes/gemm16_drawn.txt --seconds 0.1

With `--tune-seconds`, `size_searches.py` first searches at these sizes, with that many seconds for each kernel that is
not far behind. Without it, earlier results in the folder of `--searches` are used. The winners of all sizes are
measured at every size.

The 24 sizes are of four kinds: square, skinny (few rows), deep (large K) and batched. `--draw SEED` draws others.
`--kind grid` draws from {64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384} for M, N and K; `--kind model` draws
M of 1 to 8192, and N and K of 1024 to 28672, which are multiples of 64, one in eight odd instead. Of the lists in
`sizes/`, `held_out_sizes.txt`, `later_sizes.txt`, `sizes_4051.txt`, `sizes_6067.txt`, `sizes_7307.txt`,
`sizes_9131.txt`, `sizes_47304.txt`, `gemm16_later.txt`, `gemm16_last.txt`, `gemm16_new.txt`, `gemm16_next.txt`,
`gemm16_drawn.txt`, and those of 16-bit products that are named by a seed, are a test set: nothing was tuned or chosen
by measurements at their sizes before they were judged. Most shapes of the grid in the lists of gemm16 had been judged
in earlier lists, with earlier models: the header of each list tells.

At each size these alternate on the same arrays: the dispatched call, with and without the vendor library; cuBLAS with
its default algorithm; torch, if it is installed; and, without `--plain`, the fastest algorithms of cuBLASLt, the
look-up's next choices, and the results of the searches.
Every element is compared after every run, timed runs included. Wrong results are reported and left out. If torch's
result is wrong, because it adds partial sums in 16 bits, torch is told to add them in 32 bits at this size. Times are
of the device. A ratio is below another number for certain if the 95 % interval of the median of its rounds is;
`--rounds` is the least number of rounds where the dispatched call looks slower than torch. "For a caller", a call takes
at least the host's time, which is the mean of 20 calls in a row.

The regret is how much longer a dispatched call takes than the best: without the library, than the best of all measured
kernels; with it, also than cuBLAS's default. Searches may find code compiled for fixed sizes, which a dispatch ranks
last unless it was measured at these sizes. The last lines also show the worst regret without such code.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import itertools
import json
import math
import random
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from size_searches import Found, read, run

import tuner
from tuner import devices
from tuner.devices import Device
from tuner.devices.built import build
from tuner.devices.program import Program
from tuner.errors import NoConfiguration, TunerError, WrongResult
from tuner.families.choice import FamilyTable
from tuner.families.code import SizedCode
from tuner.families.dispatcher import Dispatcher
from tuner.families.family import Family, find
from tuner.measure import turns
from tuner.measure.timing.clock import Rounds, Stopwatch, interleave, spread
from tuner.measure.workbench import Workbench
from tuner.space import chosen_types, operation, parsing, size_lists
from tuner.space.chosen_types import dtype
from tuner.space.config import Config
from tuner.space.instance import Instance
from tuner.space.model import Space
from tuner.space.scope import Scope
from tuner.space.texts import config_text, short_size, size_text

SIZES = Path(__file__).parent / "sizes/any_size.txt"
OF_EACH_KIND = 6
HOPEFUL = 1.15  # times the fastest of a heat: what takes longer does not go on
WITH, WITHOUT, DEFAULT, TORCH = "dispatch", "without the library", "cuBLAS", "torch"
GRID = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384)
LAUNCHES = 20
LOW = 0.97  # times as fast as a peer: a dispatched call should not be slower
Call = Callable[[], Any]


def drawn(seed: int, each: int = OF_EACH_KIND) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    """The kind of each size, and M, N, K and batch. Each size of a kind has its own part of the range of one number."""
    numbers = random.Random(seed)  # noqa: S311

    def one(low: int, high: int, step: int, part: int | None = None) -> int:
        """A number between both, as often in each octave, and a multiple of the step."""
        share = numbers.random() if part is None else (part + numbers.random()) / each
        return max(1, round(low * math.pow(high / low, share) / step)) * step

    for part in range(each):
        n = one(200, 9000, numbers.choice((1, 1, 8, 64)), part)
        yield "square", (n, n, n, 1)
    for part in range(each):
        step = numbers.choice((1, 8, 64))
        yield "skinny", (one(1, 128, 1, part), one(512, 16384, step), one(512, 16384, step), 1)
    for part in range(each):
        step = numbers.choice((1, 8, 64))
        k = one(4096, 32768, step, part)
        yield "deep", (one(32, 1024, step), one(32, 1024, step), k, 1)
    for part in range(each):
        step = numbers.choice((1, 8, 64))
        batch = one(2, 64, 1, part)
        yield "batched", (one(64, 1024, step), one(64, 1024, step), one(64, 1024, step), batch)


def drawn_of_grid(seed: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Shapes of the grid, each once."""
    numbers = random.Random(seed)  # noqa: S311
    for m, n, k in numbers.sample([*itertools.product(GRID, repeat=3)], count):
        yield m, n, k, 1


def drawn_of_models(seed: int, count: int) -> Iterator[tuple[int, int, int, int]]:
    """Shapes of the linear layers of transformers: M rows of activations, N x K weights."""
    numbers = random.Random(seed)  # noqa: S311

    def one(low: int, high: int, step: int) -> int:
        value = round(low * math.pow(high / low, numbers.random()) / step) * step
        return max(1, value)

    for _ in range(count):
        m = 2 ** numbers.randrange(14) if numbers.random() < 0.5 else one(1, 8192, 1)
        n, k = (one(1024, 28672, 64) + (1 if numbers.random() < 0.125 else 0) for _ in "NK")
        yield m, n, k, 1


@dataclass(frozen=True)
class Winner:
    """A configuration that was the best, or next to it, of a kernel at a size."""

    space: Space
    config: Config


@dataclass
class Row:
    """What was measured at a size: medians in ms and spreads by name, and what the dispatched calls run."""

    size: str
    times: dict[str, float]
    spreads: dict[str, float]
    runs: dict[str, str]
    best: float  # of all kernels, without the library
    best_is: str
    best_shared: float  # of those whose code holds no size
    offered: float | None  # the best of cuBLASLt
    host: dict[str, float]  # the host's time of a call in ms, of the dispatched one and torch's
    first_ms: float  # of the look-up and loading; at the first size also of reading what is known
    most: dict[str, float]  # by peer, the upper end of the 95 % interval of how many times as fast dispatch is
    notes: list[str]

    def regret(self, name: str, shared: bool = False) -> float:
        """Of a dispatched call, over the best of what was measured; if `shared`, not counting code that holds sizes."""
        best = self.best_shared if shared else self.best
        if name == WITH and DEFAULT in self.times:
            best = min(best, self.times[DEFAULT])
        return self.times[name] / min(best, self.times[name]) - 1

    def for_caller(self) -> float | None:
        """How many times as fast as torch for a program that calls one after the other."""
        if TORCH not in self.times:
            return None
        torch, own = (max(self.times[name], self.host[name]) for name in (TORCH, WITH))
        return torch / own

    def ratio(self, name: str, peer: str = DEFAULT) -> float | None:
        """How many times as fast as a peer, by default cuBLAS's default."""
        return self.times[peer] / self.times[name] if peer in self.times else None


class Array:
    """An array of a workbench, as an array of a library that nobody knows."""

    def __init__(self, address: int, shape: tuple[int, ...], element: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, element
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": element.str, "data": (address, False), "version": 3
        }  # fmt: skip


def arrays_of(bench: Workbench) -> list[Any]:
    """The arrays of a workbench, for a dispatched call."""
    found: list[Any] = []
    for argument in bench.op.arrays:
        buffer, element = bench.buffers[argument.name], dtype(argument, bench.scope).numpy
        shape = operation.shape(argument, bench.scope)
        if bench.device.kind == "host":
            memory: Any = (ctypes.c_char * buffer.nbytes).from_address(int(buffer.handle))
            found.append(np.frombuffer(memory, element).reshape(shape))
        else:
            found.append(Array(int(buffer.handle), shape, element))
    if bench.device.kind == "cuda" and importlib.util.find_spec("torch"):
        return [tensor(array, dtype(a, bench.scope).name) for array, a in zip(found, bench.op.arrays, strict=True)]
    return found


def tensor(array: Array, element: str) -> Any:
    """A tensor of torch in the memory of an array. The interface has no name for bfloat16, so it is passed as bits."""
    import torch

    wanted = getattr(torch, element)
    array.__cuda_array_interface__["typestr"] = f"<i{wanted.itemsize}"
    return torch.as_tensor(array, device="cuda").view(wanted)


def by_torch(bench: Workbench, arrays: Sequence[Any]) -> Iterator[Call]:
    """The product by torch, with its sums as it likes, and then in 32 bits; nothing if torch cannot do it."""
    if len({getattr(array, "dtype", None) for array in arrays}) > 1 or not hasattr(arrays[0], "data_ptr"):
        return
    import torch

    named = zip(arrays, bench.op.arrays, strict=True)
    C, A, B = (each.transpose(-1, -2) if a.name in bench.op.transposed else each for each, a in named)
    if len(C) == 1:
        C, A, B = C[0], A[0], B[0]
    settings = torch.backends.cuda.matmul
    for is_reduced in (True, False):
        settings.allow_fp16_reduced_precision_reduction = settings.allow_bf16_reduced_precision_reduction = is_reduced
        yield partial(torch.matmul, A, B, out=C)


def winners(found: Mapping[str, Found], family: Family, scope: Scope) -> list[Winner]:
    """What searches found: all of it at this size, and the best at each of the others, but for what is compiled for one
    size alone."""
    spaces = {space.name: space for space in family.spaces}
    here = found.get(size_text(scope.sizes), [])
    elsewhere = [rows[0] for rows in found.values() if rows and rows is not here]
    all_of = [(kernel, config) for kernel, config, _ in here]
    all_of += [(k, c) for k, c, _ in elsewhere if not SizedCode(spaces[k]).is_for_one_size(c, scope)]
    return [Winner(spaces[kernel], config) for kernel, config in all_of]


def measured(
    family: Family,
    sizes: dict[str, int],
    types: dict[str, str],
    device: Device,
    handles: Mapping[str, Dispatcher],
    table: FamilyTable,
    found: Mapping[str, Found],
    options: argparse.Namespace,
) -> Row:
    """All of them at one size. Raises TunerError where that cannot be measured."""
    op = family.operation
    space = next(s for s in family.spaces if device.language in s.languages)
    scope = op.own(Scope(sizes, parsing.parse_options({}, op), device.language, device.limits, types))
    with turns.taken(device.place):
        bench = Workbench(device, space, scope)
    arrays, notes, calls, runs = arrays_of(bench), list[str](), dict[str, Call](), dict[str, str]()
    took = 0.0
    for name, gemm in handles.items():
        began = time.perf_counter()
        runs[name] = _described(gemm, arrays)
        took = took or time.perf_counter() - began
        calls[name] = partial(gemm, *arrays)
    if (library_call := bench.library()) is not None:
        calls[DEFAULT] = library_call
    ranked = itertools.islice(table.choices(sizes), 0 if options.plain else options.ranked)
    seconds = [Winner(choice.space, choice.candidate.config) for choice in ranked if choice.space]
    programs = {_name(winner): winner for winner in (*seconds, *winners(found, family, scope))}
    stopwatch = Stopwatch(device, bench)
    with turns.taken(device.place):
        for name in list(calls):
            try:
                bench.verify(calls[name])
            except WrongResult as error:
                if name != DEFAULT:
                    raise WrongResult(f"{name}: {error}") from None
                notes.append(f"{DEFAULT}: {error}")  # it may add partial sums in 16 bits
                del calls[name]
        for call in by_torch(bench, arrays):
            with contextlib.suppress(WrongResult):
                bench.verify(call)
                calls[TORCH] = call
                break
        algorithms = () if options.plain else bench.library_algorithms()
        offered = {f"{call.name} {i}": call for i, call in enumerate(algorithms)}
        calls |= _hopeful(bench, stopwatch, offered, notes)
        bound = dict(_bound(bench, programs, scope, notes))
        kept = _hopeful(bench, stopwatch, bound, notes)
        calls |= kept
        # The sensors are read between two rounds. What comes first then finds a device that has waited.
        first, *others = calls.values()
        torch = 1 + [*calls].index(TORCH) if TORCH in calls else None
        rounds = _rounds(device, stopwatch, [lambda: first(), first, *others], torch, options)
    times, spreads, taken_by = {}, {}, dict[str, Sequence[float]]()
    for position, (name, taken) in enumerate(zip(calls, rounds.times[1:], strict=True), 1):
        if position in rounds.errors:
            notes.append(f"{name}: {rounds.errors[position]}")
        else:
            times[name], spreads[name], taken_by[name] = median(taken), spread(taken), taken
    missing = {WITH, WITHOUT} - times.keys()
    if missing:
        raise TunerError(f"{', '.join(sorted(missing))}: {'; '.join(notes)}")
    ours = {name: times[name] for name in (WITHOUT, *kept) if name in times}
    if not runs[WITH].startswith("library"):
        ours[WITH] = times[WITH]
    best = min(ours, key=lambda name: ours[name])
    for_one = {n for n in kept if SizedCode(programs[n].space).is_for_one_size(programs[n].config, scope)}
    shared = min(time_ms for name, time_ms in ours.items() if name not in for_one)
    lt = min((times[name] for name in offered if name in times), default=None)
    with turns.taken(device.place):
        host = {name: host_ms(calls[name], device) for name in (WITH, TORCH) if name in calls}
    most = {peer: upper_end(taken_by[peer], taken_by[WITH]) for peer in (DEFAULT, TORCH) if peer in taken_by}
    return Row(
        short_size(sizes), times, spreads, runs, ours[best], runs.get(best, best), shared, lt, host,
        took * 1e3, most, notes,
    )  # fmt: skip


def _rounds(
    device: Device, stopwatch: Stopwatch, calls: Sequence[Call], torch: int | None, options: argparse.Namespace
) -> Rounds:
    """The rounds of these calls, of which the second is the dispatched one and that at `torch` is torch's."""
    rounds = interleave(device, stopwatch, calls, options.seconds)
    while torch is not None and not rounds.errors and len(rounds.times[1]) < options.rounds:
        if median(rounds.times[torch]) >= median(rounds.times[1]):
            break
        further = interleave(device, stopwatch, calls, options.seconds)
        times = [a + b for a, b in zip(rounds.times, further.times, strict=True)]
        rounds = replace(rounds, times=times, errors=further.errors)
    return rounds


def host_ms(call: Call, device: Device) -> float:
    """The host's time of a call, the mean of LAUNCHES in a row."""
    call()
    device.synchronize()
    began = time.perf_counter()
    for _ in range(LAUNCHES):
        call()
    seconds = time.perf_counter() - began
    device.synchronize()
    return seconds / LAUNCHES * 1e3


def upper_end(peer: Sequence[float], own: Sequence[float]) -> float:
    """The upper end of the 95 % interval of the median ratio of two calls in the same rounds, by order statistics."""
    ratios = sorted(a / b for a, b in zip(peer, own, strict=False))
    return ratios[min(len(ratios) - 1, math.ceil(len(ratios) / 2 + 0.98 * math.sqrt(len(ratios))))]


def _described(gemm: Dispatcher, arrays: Sequence[Any]) -> str:
    """What a dispatched call runs."""
    told = gemm.explain(*arrays)
    expected = "" if told.regret is None else f", expected regret {told.regret:.1%}"
    return f"{told.kernel} {config_text(told.config) if told.config else ''} ({told.match}{expected})"


def _name(winner: Winner) -> str:
    return f"{winner.space.name} {config_text(winner.config)}"


def _bound(
    bench: Workbench, programs: Mapping[str, Winner], scope: Scope, notes: list[str]
) -> Iterator[tuple[str, Call]]:
    """Launches of the winners that are valid and load here."""
    for name, winner in programs.items():
        is_known = winner.space.declares(winner.config) and bench.serves(winner.space, scope)
        if is_known and winner.space.valid(winner.config, scope):
            try:
                built = build(bench.device.compiler, Instance(winner.space, winner.config, scope))
                yield name, bench.bind(Program(bench.device, built))
            except (TunerError, NoConfiguration) as error:
                notes.append(f"{name}: {str(error).partition(chr(10))[0]}")


def _hopeful(bench: Workbench, stopwatch: Stopwatch, calls: Mapping[str, Call], notes: list[str]) -> dict[str, Call]:
    """Those that are right, and not far behind the fastest of them in two looks."""
    looks: dict[str, float] = {}
    for name, call in calls.items():
        try:
            bench.verify(call)
            looks[name] = min(stopwatch.time(call), stopwatch.time(call))
        except Exception as error:  # a library has errors of its own
            notes.append(f"{name}: {str(error).partition(chr(10))[0]}")
    fastest = min(looks.values(), default=0.0)
    return {name: calls[name] for name, look in looks.items() if look <= HOPEFUL * fastest}


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Lines about all sizes."""
    for name in (WITH, WITHOUT):
        regrets, shared = ([row.regret(name, only) for row in rows] for only in (False, True))
        line = f"{name}: regret median {median(regrets):.1%}, worst {max(regrets):.1%}"
        line += f", {max(shared):.1%} not counting code that holds sizes"
        ratios = [ratio for row in rows if (ratio := row.ratio(name)) is not None]
        if ratios:
            line += f"; {geometric_mean(ratios):.3f} x cuBLAS (geometric mean), at least {min(ratios):.3f} x"
        beside = [ratio for row in rows if (ratio := row.ratio(name, TORCH)) is not None]
        if beside:
            line += f"; {geometric_mean(beside):.3f} x torch, at least {min(beside):.3f} x"
        against = [row.offered / row.times[name] for row in rows if row.offered]
        if against:
            line += f"; {geometric_mean(against):.3f} x the best of cuBLASLt, at least {min(against):.3f} x"
        yield line
    if waited := [ratio for row in rows if (ratio := row.for_caller()) is not None]:
        yield f"{WITH}, for a caller: {geometric_mean(waited):.3f} x torch, at least {min(waited):.3f} x"
    for peer in (DEFAULT, TORCH):
        if count := sum(peer in row.most for row in rows):
            low = [row.size for row in rows if row.most.get(peer, math.inf) < LOW]
            yield f"{WITH}: below {LOW} x {peer} for certain at {len(low)} of {count}: {', '.join(low) or 'none'}"
    spreads = [row.spreads[name] for row in rows for name in (WITH, WITHOUT, DEFAULT) if name in row.spreads]
    yield f"{len(rows)} sizes; spreads median {median(spreads):.1%}, worst {max(spreads):.1%}"


def line(row: Row) -> str:
    """A line of a table in Markdown."""
    ratio, own, torch = row.ratio(WITH), row.ratio(WITHOUT), row.ratio(WITH, TORCH)
    lt = f"{row.offered / row.times[WITH]:.2f}" if row.offered else ""
    return (
        f"| {row.size} | {row.times[WITH]:.4g} ({row.spreads[WITH]:.1%}) | {_short(row.runs[WITH])} "
        f"| {row.regret(WITH):.1%} | {f'{ratio:.3f}' if ratio else ''} | {f'{torch:.3f}' if torch else ''} | {lt} "
        f"| {row.regret(WITHOUT):.1%} | {f'{own:.3f}' if own else ''} |"
    )


def _short(described: str) -> str:
    """`sgemm/13_double_buffered (predicted)`."""
    match = described.rpartition("(")[2].partition(",")[0].rstrip(")")
    return f"{described.partition(' ')[0]} ({match})"


HEAD = (
    "| size | ms (spread) | dispatched | regret | x cuBLAS | x torch | x cuBLASLt | regret without the library "
    "| x cuBLAS |\n|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Print a line for each size, and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="?", default="sgemm")
    parser.add_argument("--sizes", default=str(SIZES), help="a file of sizes, or a grid of them")
    parser.add_argument("--draw", type=int, metavar="SEED", help="only print random sizes")
    parser.add_argument("--each", type=int, default=OF_EACH_KIND, help="number of sizes of each kind to draw")
    parser.add_argument("--kind", choices=("any", "grid", "model"), default="any", help="kind of sizes to draw")
    parser.add_argument("--type", action="append", default=[], metavar="NAME=DTYPE", help="a type of the family")
    parser.add_argument("--most", type=int, help="maximum number of sizes, over all kinds")
    parser.add_argument("--after", type=int, default=0, metavar="N", help="leave out the first N sizes")
    parser.add_argument("--plain", action="store_true", help="only dispatched calls, torch and cuBLAS's default")
    parser.add_argument("--rounds", type=int, default=0, help="least rounds where torch seems to be faster")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of measurement at each size")
    parser.add_argument("--results", type=Path, help="folder of records for the dispatch, instead of the user's")
    parser.add_argument("--searches", type=Path, help="folder of search results")
    parser.add_argument(
        "--tune-seconds", type=float, help="search at these sizes first, for this many seconds per kernel"
    )
    parser.add_argument("--at-once", type=int, default=1, help="number of parallel searches")
    parser.add_argument("--limit", type=float, default=math.inf, help="total seconds of all searches")
    parser.add_argument("--ranked", type=int, default=8, help="number of the look-up's choices to measure")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    if options.draw is not None:
        each = "" if options.each == OF_EACH_KIND else f" --each {options.each}"
        kind = "" if options.kind == "any" else f" --kind {options.kind}"
        print(f"# python benchmarks/any_size.py --draw {options.draw}{kind}{each}")
        draw = {"grid": drawn_of_grid, "model": drawn_of_models}.get(options.kind)
        of_kind = draw and ((options.kind, size) for size in draw(options.draw, options.each))
        for kind, (m, n, k, batch) in of_kind or drawn(options.draw, options.each):
            print(f"{f'M={m},N={n},K={k},batch={batch}':<36} 1  # {kind}")
        return
    if options.tune_seconds and not options.searches:
        parser.error("--tune-seconds: --searches DIR is missing, the folder for what is found")
    warnings.simplefilter("ignore")  # each line says the match
    family = find(options.family)
    types = chosen_types.parse(dict(text.split("=") for text in options.type), family.operation)
    sizes = [each.sizes for each in size_lists.read(options.sizes, family.operation)]
    sizes = sizes[options.after :]
    sizes = sizes[:: max(1, len(sizes) // options.most)][: options.most] if options.most else sizes
    if options.tune_seconds:
        seconds, device_id = options.tune_seconds, options.device
        for text in run(options.family, sizes, seconds, device_id, options.searches, options.at_once, options.limit):
            print(text, flush=True)
    all_found = read(options.searches, options.family) if options.searches else {}
    found = {text: all_found[text] for text in map(size_text, sizes) if text in all_found}
    device = devices.open_device(options.device)
    handles = {
        name: tuner.dispatch(options.family, device=device, library=library, results=options.results, wait=True)
        for name, library in ((WITH, True), (WITHOUT, False))
    }
    nowhere = Scope(sizes[0], parsing.parse_options({}, family.operation), device.language, device.limits, types)
    table = FamilyTable(family.spaces, device, nowhere, False, options.results)
    print(f"{options.family} {types or ''} on {device.name}\n\n{HEAD}", flush=True)
    rows = []
    with contextlib.suppress(KeyboardInterrupt):  # a run that is cut off has its summary, too
        for problem in sizes:
            try:
                rows.append(measured(family, problem, types, device, handles, table, found, options))
            except Exception as error:  # a library has errors of its own
                print(f"{short_size(problem)}: left out: {type(error).__name__}: {error}", flush=True)
                continue
            print(line(rows[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps([vars(row) for row in rows], indent=1) + "\n")
    print()
    for text in summary(rows) if rows else ():
        print(text)
    if len(rows) < len(sizes):
        print(f"{len(sizes) - len(rows)} of {len(sizes)} sizes are missing")


if __name__ == "__main__":
    main()
