"""Check that a space and the Python file of its kernels agree, as far as the text tells."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from tuner.errors import SpaceError
from tuner.quoting import quoted, shown
from tuner.space.dtypes import DTYPES
from tuner.space.jit import function, part
from tuner.space.jit.function import JitFunction
from tuner.space.model import Space
from tuner.space.sources.checks.uses import used_by_space
from tuner.space.sources.python_steps import OPTIONS
from tuner.space.step import Step
from tuner.space.values import python_function

KeyPath = tuple[str | int, ...]
Found = tuple[KeyPath, str, bool]  # the key of the space file, the message, and whether nothing can be launched
ALIKE = 0.7  # from this difflib ratio on, a name may be a misspelling of another
MOST_WARPS, MOST_CTAS = 32, 16
_POWERS = {"num_warps": MOST_WARPS, "num_ctas": MOST_CTAS}


def faults(space: Space) -> Iterator[Found]:
    """The disagreements of a space whose kernels are in a Python file."""
    yield from _arguments(space)
    yield from _options(space)
    constants = set[str]()
    for number, step in enumerate(space.steps):
        own = _function(step)
        if isinstance(own, str):
            yield ("steps", number, "kernel"), own, True
            return
        yield from _constants(space, number, own)
        yield from _passed(space, number, own)
        yield from _globals(number, step, own)
        constants |= {each.name for each in own.constants}
    yield from _unused(space, constants)


def _function(step: Step) -> JitFunction | str:
    """The function that a step launches, or why it cannot."""
    file = shown(step.source.name)
    try:
        known = python_function.read(step.source, function.functions)
    except SpaceError as error:
        return str(error)
    if step.kernel not in known:
        kernels = ", ".join(name for name, each in known.items() if each.is_jit)
        hint = f"its kernels are {shown(kernels)}" if kernels else "it has no function decorated with @triton.jit"
        return f"{file} has no function {quoted(step.kernel)} at its top level; {hint}"
    own = known[step.kernel]
    if own.foreign:
        return f"{file}: {own.foreign}"
    if not own.is_jit:
        return f"{step.kernel} in {file} (line {own.node.lineno}) is not decorated with @triton.jit; decorate it"
    return own


def _arguments(space: Space) -> Iterator[Found]:
    """What Triton has no counterpart of, among the arguments."""
    op, language = space.operation, space.written_in[0]
    for position, argument in enumerate(op.arguments):
        where = ("operation", "arguments", position)
        if argument.kind is not None:
            message = f"{argument.name}: a kernel in Triton takes no {argument.kind.name}; remove this key"
            yield (*where, "kind"), message, True
        elif argument.fields:
            yield (*where, "fields"), f"{argument.name}: a kernel in Triton takes no struct; pass its numbers", True
        elif argument.strides:
            message = f"{argument.name}: kernels in Triton are launched on contiguous arrays; remove this key"
            yield (*where, "strides"), message, True
        else:
            for name in op.types.get(argument.dtype, (argument.dtype,)):
                if name in DTYPES and not getattr(DTYPES[name].words, language):
                    yield (*where, "dtype"), f"{argument.name}: Triton has no type {name}", True
    if space.compile_options.get(space.languages[0]):
        message = f"Triton's options are names of the space: {', '.join(OPTIONS)}; write them under `parameters:`"
        yield ("compile_options",), message, True


def _options(space: Space) -> Iterator[Found]:
    """Values of parameters that Triton cannot compile for."""
    for name in OPTIONS:
        for position, value in enumerate(space.parameters.get(name, ())):
            most, least = _POWERS.get(name), 0 if name == "maxnreg" else 1
            is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= least
            is_power = is_whole and (most is None or (int(value) & (int(value) - 1) == 0 and int(value) <= most))
            if not is_power:
                allowed = f"a power of 2 up to {most}" if most else f"a whole number from {least} on"
                yield ("parameters", name, position), f"{quoted(value)}: {allowed} is needed", True


def _constants(space: Space, number: int, own: JitFunction) -> Iterator[Found]:
    """Constants of a kernel that have no value."""
    op = space.operation
    known = {*space.parameters, *space.derived, *op.sizes, *op.options, *op.types}
    for constant in own.constants:
        if constant.name in known or constant.has_default:
            continue
        near = difflib.get_close_matches(constant.name, sorted(known), n=1, cutoff=ALIKE)
        meant = f"did you mean {near[0]}? Otherwise " if near else ""
        message = (
            f"{own.name} takes {constant.name}: tl.constexpr, which has no value and no default; {meant}write it under "
            "`parameters:` or `derived:`, or make it a size, an option or a type"
        )
        yield ("steps", number, "kernel"), message, True


def _passed(space: Space, number: int, own: JitFunction) -> Iterator[Found]:
    """Arguments of a step that are not those of its kernel."""
    step = space.steps[number]
    has_own = step.arguments != tuple(a.name for a in space.operation.arguments)
    where: KeyPath = ("steps", number, "arguments") if has_own else ("operation", "arguments")
    constant = next((c.name for c in own.constants if c.name in step.arguments), None)
    if constant is not None:
        message = (
            f"{constant} is tl.constexpr in {own.name}, so it is no argument of a launch; remove it here, and give it "
            "its value under `parameters:`, `derived:`, `sizes:` or `types:`"
        )
        yield where, message, True
        return
    taken = [p.name for p in own.arguments if p.name in step.arguments or p.default is not None]
    if list(step.arguments) != taken:
        declared, names = shown(", ".join(step.arguments)), shown(", ".join(taken)) or "nothing"
        yield where, f"declared: {declared}; {own.name} takes {names}; write these names, in this order", True


def _globals(number: int, step: Step, own: JitFunction) -> Iterator[Found]:
    """Numbers and texts at the top level of the file that the kernel reads, which Triton refuses."""
    text = python_function.text_of(step.source)
    tree = ast.parse(part.of(text, frozenset({step.kernel}), step.kernel).text)
    read = part.names_read(own.node)
    for node in tree.body:
        for name in _plain_names(node):
            if name in read:
                message = (
                    f"{own.name} reads {name} of line {node.lineno} of {step.source.name}, which Triton refuses of a "
                    f"plain variable; write `{name} = tl.constexpr(...)` there, or make it an argument"
                )
                yield ("steps", number, "kernel"), message, True


def _plain_names(node: ast.stmt) -> list[str]:
    """The names to which a statement gives a literal, as no tl.constexpr."""
    if isinstance(node, ast.AnnAssign):
        targets: list[ast.expr] = [node.target]
    else:
        targets = node.targets if isinstance(node, ast.Assign) else []
    value = getattr(node, "value", None)
    is_plain = isinstance(value, ast.expr) and _is_literal(value)
    return [target.id for target in targets if isinstance(target, ast.Name)] if is_plain else []


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def _unused(space: Space, constants: set[str]) -> Iterator[Found]:
    """Parameters with several values that nothing reads."""
    used = constants | {*OPTIONS} | used_by_space(space)
    for name, values in space.parameters.items():
        if name in used or len(values) == 1:
            continue
        near = difflib.get_close_matches(name, sorted(constants - space.parameters.keys()), n=1, cutoff=ALIKE)
        meant = f"did you mean {near[0]}, which the kernel takes? Otherwise " if near else ""
        message = (
            f"no kernel takes it as tl.constexpr, and no expression uses it, so its {len(values)} values make no "
            f"difference; {meant}remove it"
        )
        yield ("parameters", name), message, False
