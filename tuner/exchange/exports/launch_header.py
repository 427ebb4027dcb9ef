"""launch.h of a bundle: its arguments, steps and builds as C tables."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tuner.devices.cuda.architectures import compute_capability
from tuner.errors import DeviceError
from tuner.exchange.exports import loop_tables
from tuner.exchange.exports.bundled import BundledArgument, BundledBuild
from tuner.exchange.exports.names import comment, identifier
from tuner.exchange.exports.target import Problem
from tuner.space.sources.source import StepSource

TYPES = f"""\
#ifndef TUNED_BUNDLE
#define TUNED_BUNDLE 5
enum tuned_role {{ TUNED_SCALAR, TUNED_INPUT, TUNED_OUTPUT, TUNED_SCRATCH, TUNED_ENCODED }};
enum tuned_zeroed {{ TUNED_NEVER, TUNED_ONCE, TUNED_EACH }}; /* once: after allocation; each: before each launch */

/* Encodes the array at `address`, as a tensor map or texture, into `value`, which is aligned to 64 bytes. `driver`
 * returns the driver function of a name, never NULL. Returns the driver's status: 0 on success. */
typedef void tuned_function(void);
typedef tuned_function *tuned_driver(const char *name);
typedef int tuned_encode(void *value, unsigned long long address, tuned_driver *driver);

/* `bytes`: the size of an array in device memory; 0 if the argument has none. `element`: the size of an element in
 * bytes. `type`: NumPy's type character of an element. `value`: the value of a scalar; of an array, the value of each
 * element in the example: 0 if it is only written, else 1. `contents`: the bytes of a constant array, or of a struct or
 * vector that is passed by value, else NULL.
 * `symbol`: if not NULL, the array is copied before each launch to the variable of this name in the cubins. `encode`:
 * if not NULL, the kernels take the `encoded` bytes that it writes, which stand for the array of argument `of`.
 * `alignment`: if not 0, the array's address must be a multiple of it: the code relies on that. It also relies on the
 * values of whole numbers, which must stay as they are. */
struct tuned_argument {{
    const char *name;
    enum tuned_role role;
    size_t bytes, element;
    char type;
    unsigned char value[16];
    const unsigned char *contents;
    enum tuned_zeroed zeroed;
    const char *symbol;
    tuned_encode *encode;
    size_t encoded;
    int of;
    size_t alignment;
}};

/* A pointer in a struct that is passed by value: before a launch, the address of the array of argument `array` is
 * written `offset` bytes after the beginning of the value of argument `of`. */
struct tuned_pointer {{
    int of;
    size_t offset;
    int array;
}};

/* A kernel launch: the cubin and the kernel's name in it; blocks; threads per block; blocks per cluster, 0 without
 * clusters; bytes of dynamic shared memory; whether the launch is cooperative; whether it is programmatic, that is, may
 * begin before the launch before it has ended. `arguments`: indices into the build's arguments, in the order of the
 * kernel's parameters. */
struct tuned_step {{
    const char *file, *kernel;
    unsigned grid[3], block[3], cluster[3], shared_memory;
    int cooperative, programmatic;
    const int *arguments;
    size_t argument_count;
    const struct tuned_pointer *pointers;
    size_t pointer_count;
}};

{loop_tables.TYPES}
/* Launches that run one after the other: each step once, or, if there are stretches, these. A build runs on devices of
 * its major compute capability whose minor one is equal or, unless `exact`, higher. */
struct tuned_build {{
    const char *architecture;
    int major, minor, exact;
    const struct tuned_argument *arguments;
    size_t argument_count;
    const struct tuned_step *steps;
    size_t step_count;
    const struct tuned_launch *launches;
    const struct tuned_stretch *stretches;
    size_t stretch_count;
}};
#endif
"""
_ROLES = {"in": "INPUT", "out": "OUTPUT", "inout": "OUTPUT", "scratch": "SCRATCH"}


def text(problem: Problem, builds: Sequence[BundledBuild], prefix: str) -> str:
    """The header. The names of its tables begin with `prefix`. Raises DeviceError for an unknown architecture."""
    space = problem.space
    rows = [_table_row(build, f"{prefix}_{identifier(build.architecture)}") for build in builds]
    return (
        comment(f"{space.name} at {problem.code_text}. Written by `tune export --to cubin`.")
        + f"#ifndef {prefix.upper()}_LAUNCH_H\n#define {prefix.upper()}_LAUNCH_H\n\n#include <stddef.h>\n\n{TYPES}\n"
        + "".join(_tables(build, f"{prefix}_{identifier(build.architecture)}") for build in builds)
        + f"static const struct tuned_build {prefix}_builds[] = {{\n{''.join(rows)}}};\n\n#endif\n"
    )


def _tables(build: BundledBuild, prefix: str) -> str:
    """The arguments and steps of one build."""
    contents = [
        f"static const unsigned char {prefix}_{a.name}[] = {{{_bytes(a.value)}}};\n\n"
        for a in build.arguments
        if isinstance(a.value, np.ndarray | np.void)
    ]
    positions = {a.name: position for position, a in enumerate(build.arguments)}
    encoders = [_encoder(a, f"{prefix}_{a.name}") for a in build.arguments if a.exported and a.exported.encode]
    arguments = [f"    {{{_argument(a, positions, prefix, build.alignment(a))}}},\n" for a in build.arguments]
    numbers, steps = [], []
    for number, step in enumerate(build.steps, start=1):
        name = f"{prefix}_step_{number}"
        taken = build.taken(step)
        if taken:
            numbers.append(
                f"static const int {name}[] = {{{', '.join(str(positions[a]) for a in taken)}}};"
                f" /* {', '.join(taken)} */\n"
            )
        pointers = build.pointers(step)
        if pointers:
            rows = ", ".join(f"{{{positions[of]}, {offset}, {positions[array]}}}" for of, offset, array in pointers)
            numbers.append(f"static const struct tuned_pointer {name}_pointers[] = {{{rows}}};\n")
        own = {"pointers": f"{name}_pointers", "pointer_count": len(pointers)} if pointers else {}
        steps.append(f"    {{{_step(build, step, name if taken else 'NULL', len(taken), own)}}},\n")
    return (
        "".join(contents + encoders)
        + f"static const struct tuned_argument {prefix}_arguments[] = {{\n{''.join(arguments)}}};\n\n"
        + "".join(numbers)
        + f"\nstatic const struct tuned_step {prefix}_steps[] = {{\n{''.join(steps)}}};\n\n"
        + loop_tables.tables(build, prefix)
    )


def _encoder(argument: BundledArgument, name: str) -> str:
    """The C function that encodes an argument of a kind, such as a tensor map."""
    assert argument.exported is not None
    return (
        f"static int {name}(void *value, unsigned long long address, tuned_driver *driver) {{\n"
        f"{textwrap.indent(argument.exported.encode, '    ')}}}\n\n"
    )


def _argument(a: BundledArgument, positions: dict[str, int], prefix: str, alignment: int) -> str:
    role = "SCALAR" if a.shape is None else _ROLES[a.argument.role or "in"]
    exported = a.exported
    fields: dict[str, Any] = {"name": f'"{a.name}"', "role": f"TUNED_{'ENCODED' if exported and exported.of else role}"}
    if a.nbytes:
        fields["bytes"] = f"{a.nbytes}u"
    if a.dtype is not None:
        value = a.value if a.shape is None else a.dtype.scalar(0 if a.argument.role == "out" else 1)
        fields |= {"element": value.itemsize, "type": f"'{value.dtype.char}'"}
        if role != "SCRATCH":
            fields["value"] = f"{{{_bytes(value)}}}"
    if isinstance(a.value, np.void):
        fields["element"] = a.value.itemsize
    if isinstance(a.value, np.ndarray | np.void):
        fields["contents"] = f"{prefix}_{a.name}"
    if a.argument.zeroed != "never":
        fields["zeroed"] = f"TUNED_{a.argument.zeroed.upper()}"
    if exported and exported.symbol:
        fields["symbol"] = f'"{exported.symbol}"'
    if exported and exported.of:
        fields |= {"encode": f"{prefix}_{a.name}", "encoded": exported.nbytes, "of": positions[exported.of]}
    if alignment:
        fields["alignment"] = alignment
    return _fields(fields)


def _step(build: BundledBuild, step: StepSource, arguments: str, count: int, more: Mapping[str, Any]) -> str:
    geometry = step.geometry
    fields: dict[str, Any] = {"file": f'"{build.files[step.source]}"', "kernel": f'"{build.entry(step)}"'}
    fields |= {"grid": _extents(geometry.grid), "block": _extents(geometry.block)}
    if geometry.cluster != (1, 1, 1):
        fields["cluster"] = _extents(geometry.cluster)
    if geometry.shared_memory:
        fields["shared_memory"] = geometry.shared_memory
    if geometry.cooperative:
        fields["cooperative"] = 1
    if geometry.programmatic:
        fields["programmatic"] = 1
    return _fields({**fields, "arguments": arguments, "argument_count": count, **more})


def _table_row(build: BundledBuild, prefix: str) -> str:
    capability = compute_capability(build.architecture)
    if capability is None:
        raise DeviceError(f"{build.architecture}: not an NVIDIA architecture")
    major, minor = capability
    exact = int(build.architecture.endswith("a"))  # sm_100f runs on later minor versions too
    fields = {"architecture": f'"{build.architecture}"', "major": major, "minor": minor, "exact": exact}
    for name, count in (("argument", len(build.arguments)), ("step", len(build.steps))):
        fields |= {f"{name}s": f"{prefix}_{name}s", f"{name}_count": count}
    if build.schedule is not None:
        fields |= {"launches": f"{prefix}_launches", "stretches": f"{prefix}_stretches"}
        fields["stretch_count"] = len(build.schedule.stretches)
    return f"    {{{_fields(fields)}}},\n"


def _fields(fields: dict[str, Any]) -> str:
    """`fields` as C designated initialisers."""
    return ", ".join(f".{name} = {value}" for name, value in fields.items())


def _extents(extents: tuple[int, int, int]) -> str:
    return f"{{{', '.join(map(str, extents))}}}"


def _bytes(value: np.generic | np.ndarray[Any, Any]) -> str:
    return ", ".join(f"0x{byte:02x}" for byte in value.tobytes())
