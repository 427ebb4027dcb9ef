"""The launches of a configuration with loops as C tables, and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tuner.exchange.exports.bundled import BundledBuild
    from tuner.space.schedule import StepLaunch, Unrolled

TYPES = """\
/* A launch of a step in a loop: the index of the step; blocks; `arguments` in place of the step's; and the values of
 * the `changed_count` arguments `changed`, which are passed by value. Each value begins at the next multiple of 16
 * bytes after the end of the previous one. `pointers`: in place of the step's. */
struct tuned_launch {
    int step;
    unsigned grid[3];
    const int *arguments, *changed;
    const unsigned char (*values)[16];
    size_t changed_count;
    const struct tuned_pointer *pointers;
    size_t pointer_count;
};

/* Launches of a build one after the other, as indices into its launches: those of `order`. If `flag` is an argument,
 * not -1, this is one pass of several: that argument is set to 0 before each pass, and is read after it.
 * There is another pass if it is not 0, at most `most` of them; every second one launches `second`, if that is not
 * NULL. `copies`: pairs of arguments, each an array to write and one to read, which are copied at the end; if there is
 * a flag, only after an odd number of passes. */
struct tuned_stretch {
    const unsigned *order, *second;
    size_t order_count, second_count;
    int flag;
    unsigned most;
    const int (*copies)[2];
    size_t copy_count;
};
"""


def tables(build: BundledBuild, prefix: str) -> str:
    """The tables of the launches; empty if each step is launched once."""
    schedule = build.schedule
    if schedule is None:
        return ""
    positions = {a.name: position for position, a in enumerate(build.arguments)}
    lists: dict[tuple[int, ...], str] = {}  # names of lists of arguments
    pointer_lists: dict[tuple[tuple[int, int, int], ...], str] = {}
    values, rows = list[str](), list[str]()
    for launch in schedule.launches:
        fields: dict[str, Any] = {"step": launch.step, "grid": f"{{{', '.join(map(str, launch.grid))}}}"}
        taken = tuple(positions[name] for name in _taken(build, schedule, launch))
        fields["arguments"] = lists.setdefault(taken, f"{prefix}_list_{len(lists)}")
        if launch.scalars:
            changed = tuple(positions[name] for name, _ in launch.scalars)
            fields["changed"] = lists.setdefault(changed, f"{prefix}_list_{len(lists)}")
            fields |= {"values": f"{prefix}_values + {len(values)}", "changed_count": len(changed)}
            values += [row for _, value in launch.scalars for row in _rows(value.tobytes())]
        if pointers := _pointers(build, schedule, launch):
            places = tuple((positions[of], offset, positions[array]) for of, offset, array in pointers)
            fields["pointers"] = pointer_lists.setdefault(places, f"{prefix}_pointers_{len(pointer_lists)}")
            fields["pointer_count"] = len(places)
        rows.append(f"    {{{', '.join(f'.{key} = {value}' for key, value in fields.items())}}},\n")
    text = "".join(f"static const int {name}[] = {{{', '.join(map(str, each))}}};\n" for each, name in lists.items())
    for places, name in pointer_lists.items():
        each = ", ".join(f"{{{of}, {offset}, {array}}}" for of, offset, array in places)
        text += f"static const struct tuned_pointer {name}[] = {{{each}}};\n"
    if values:
        text += f"static const unsigned char {prefix}_values[][16] = {{\n    {_wrapped(values)}\n}};\n"
    text += f"static const struct tuned_launch {prefix}_launches[] = {{\n{''.join(rows)}}};\n"
    return text + _stretches(schedule, positions, prefix)


def _stretches(schedule: Unrolled, positions: dict[str, int], prefix: str) -> str:
    text, rows = "", list[str]()
    for number, stretch in enumerate(schedule.stretches):
        fields: dict[str, Any] = {}
        for key, order in zip(("order", "second"), stretch.passes, strict=False):
            if order:
                name = f"{prefix}_{key}_{number}"
                text += f"static const unsigned {name}[] = {{\n    {_wrapped(list(map(str, order)))}\n}};\n"
                fields |= {key: name, f"{key}_count": len(order)}
        fields |= {"flag": positions[stretch.flag], "most": stretch.most} if stretch.flag else {"flag": -1}
        if stretch.copies:
            pairs = ", ".join(f"{{{positions[to]}, {positions[source]}}}" for to, source in stretch.copies)
            text += f"static const int {prefix}_copies_{number}[][2] = {{{pairs}}};\n"
            fields |= {"copies": f"{prefix}_copies_{number}", "copy_count": len(stretch.copies)}
        rows.append(f"    {{{', '.join(f'.{key} = {value}' for key, value in fields.items())}}},\n")
    return f"{text}static const struct tuned_stretch {prefix}_stretches[] = {{\n{''.join(rows)}}};\n\n"


def json(build: BundledBuild, plain: Callable[[Any], Any]) -> dict[str, Any]:
    """The launches as JSON data; empty if each step is launched once. `plain` converts a value that is passed."""
    schedule = build.schedule
    if schedule is None:
        return {}
    launches = [
        {
            "step": launch.step,
            "grid": list(launch.grid),
            "arguments": list(_taken(build, schedule, launch)),
            "values": {name: plain(value) for name, value in launch.scalars},
            **pointers_json(_pointers(build, schedule, launch)),
        }
        for launch in schedule.launches
    ]
    stretches = [
        {
            "passes": [list(each) for each in stretch.passes],
            **({"flag": stretch.flag, "most": stretch.most} if stretch.flag else {}),
            "copies": [list(pair) for pair in stretch.copies],
        }
        for stretch in schedule.stretches
    ]
    return {"launches": launches, "stretches": stretches}


def pointers_json(pointers: Sequence[tuple[str, int, str]]) -> dict[str, Any]:
    """The pointers in the structs of a launch as JSON data; empty if it has none."""
    found = [{"of": of, "offset": offset, "array": array} for of, offset, array in pointers]
    return {"pointers": found} if found else {}


def _pointers(build: BundledBuild, schedule: Unrolled, launch: StepLaunch) -> list[tuple[str, int, str]]:
    """The pointers in the structs of a launch, with the arrays that stand for others."""
    arrays = schedule.arrays(launch)
    return [(of, offset, arrays.get(array, array)) for of, offset, array in build.pointers(build.steps[launch.step])]


def _taken(build: BundledBuild, schedule: Unrolled, launch: StepLaunch) -> Sequence[str]:
    """The arguments of a launch, with those that stand for others."""
    arrays = schedule.arrays(launch)
    return [arrays.get(name, name) for name in build.taken(build.steps[launch.step])]


def _rows(content: bytes) -> Sequence[str]:
    """Bytes as C initialisers of 16 bytes each."""
    parts = [content[start : start + 16] for start in range(0, len(content), 16)]
    return [f"{{{', '.join(f'0x{byte:02x}' for byte in part)}}}" for part in parts]


def _wrapped(words: Sequence[str]) -> str:
    """The words of a C initialiser, 16 in each line."""
    return ",\n    ".join(", ".join(words[start : start + 16]) for start in range(0, len(words), 16))
