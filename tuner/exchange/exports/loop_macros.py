"""The launches of a configuration with loops as C macros, for the exported header."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.errors import RequestError
from tuner.exchange.exports.names import comment
from tuner.space.instance import Instance
from tuner.space.schedule import StepLaunch, Unrolled

MOST_LAUNCHES = 10_000  # in a macro


def text(instance: Instance, prefix: str) -> str:
    """The macros; empty if each step is launched once. Raises RequestError if there are too many launches."""
    schedule = instance.schedule
    if schedule is None:
        return ""
    count = sum(len(each) for stretch in schedule.stretches for each in stretch.passes)
    if count > MOST_LAUNCHES:
        raise RequestError(
            f"{instance.space.name}: {count:,} launches; --to header holds at most {MOST_LAUNCHES:,}; use --to cubin"
        )
    for argument in instance.space.operation.looped:
        if argument.fields:
            raise RequestError(
                f"{instance.space.name}: {argument.name} is a struct that changes from launch to launch, which --to "
                "header does not hold; use --to cubin"
            )
    steps = ", ".join(f"STEP_{number}" for number in range(1, len(instance.space.steps) + 1))
    lines = [
        comment(*_explained(instance, schedule, prefix)),
        f"#define {prefix}_STRETCHES {len(schedule.stretches)}\n",
    ]
    for number, stretch in enumerate(schedule.stretches, start=1):
        own = f"{prefix}_STRETCH_{number}"
        for name, order in zip(("LAUNCHES", "SECOND_LAUNCHES"), stretch.passes, strict=False):
            calls = " \\\n    ".join(_call(schedule.launches[each], bool(schedule.pairs)) for each in order)
            lines.append(f"#define {own}_{name}({steps}) \\\n    {calls}\n")
        if stretch.flag:
            lines.append(f"#define {own}_FLAG {stretch.flag}\n#define {own}_MOST {stretch.most}\n")
        if stretch.copies:
            copies = " ".join(f"COPY({to}, {source})" for to, source in stretch.copies)
            lines.append(f"#define {own}_COPIES(COPY) {copies}\n")
    return "".join(lines)


def _explained(instance: Instance, schedule: Unrolled, prefix: str) -> Sequence[str]:
    arguments = ["grid x", "grid y", "grid z", *(["exchanged"] if schedule.pairs else [])]
    lines = [
        f"{prefix}_STRETCH_1_LAUNCHES(STEP_1, ...) calls the macros that are passed to it, one for each step, once for",
        "each launch in order. The GRID macros above are the largest grids. The arguments of the macros:",
    ]
    for number, step in enumerate(instance.space.steps, start=1):
        changed = [a.name for a in instance.space.operation.looped if a.name in step.arguments]
        lines.append(f"STEP_{number}: {', '.join([*arguments, *changed])}")
    for number, (first, other) in enumerate(schedule.pairs):
        lines.append(f"Bit {number} of `exchanged` says that {first} and {other} stand for each other.")
    if any(stretch.copies for stretch in schedule.stretches):
        lines.append("At the end of a stretch, COPIES(COPY) calls COPY(to, from) for arrays that are copied.")
    if any(stretch.flag for stretch in schedule.stretches):
        lines += [
            "A stretch with a FLAG is a pass: set the flag to 0 before each, and launch another while it is",
            "not 0 afterwards, at most MOST. Every second one is SECOND_LAUNCHES, if that is defined. COPIES follow an",
            "odd number of passes.",
        ]
    return lines


def _call(launch: StepLaunch, has_pairs: bool) -> str:
    exchanged = [str(sum(1 << number for number in launch.swapped))] if has_pairs else []
    values = [str(int(v) if isinstance(v := value.item(), bool) else v) for _, value in launch.scalars]
    return f"STEP_{launch.step + 1}({', '.join([*map(str, launch.grid), *exchanged, *values])})"
