"""The launches of a kernel as polynomials over the names of host code: its scalars, arrays, grid and block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tuner.classes import dataclass
from tuner.drafting.expansion import split_arguments
from tuner.drafting.fields import SHARED, StructField, StructPointer
from tuner.drafting.host import tensors
from tuner.drafting.host.allocations import Allocation, memory
from tuner.drafting.host.launch_site import LaunchSite, is_cleared, is_temporary
from tuner.drafting.host.launches import launches
from tuner.drafting.host.notes import Notes
from tuner.drafting.host.program import HostProgram
from tuner.drafting.host.scope import HostScope, chains
from tuner.drafting.host.work_sizes import in_blocks, whole_axes
from tuner.drafting.knobs.templates import is_type
from tuner.drafting.polynomials import Polynomial, added
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter, Prototype
from tuner.space.sources.tokens import matching

_LOCAL = (("Local", "("), ("__local", "("))  # as the C++ wrapper names them
_OF_LIBRARIES = {  # types of OpenGL and NPP in which host code counts elements
    "GLubyte": "unsigned char",
    "GLushort": "unsigned short",
    "GLuint": "unsigned int",
    "GLint": "int",
    "GLfloat": "float",
    "GLdouble": "double",
    "Npp8u": "unsigned char",
    "Npp16u": "unsigned short",
    "Npp32s": "int",
    "Npp32f": "float",
}
ItemBytes = Callable[[Parameter], int | None]  # the size of an array's elements; None if it is unknown


@dataclass(frozen=True)
class Site:
    """A launch of a kernel, reached by one chain of calls. `arrays` and `local`, those in OpenCL's local memory, are
    numbers of elements, by parameter, and by `SHARED` the bytes of dynamic shared memory; grid and block are None where
    they are unclear. On the axes `whole`, OpenCL's work-items are a multiple of the block that the host does not
    compute. `cleared` are the arrays that the launching function sets to zero before; of these, `temporary` are those
    that it declares and does not read."""

    scope: HostScope
    scalars: Mapping[str, Polynomial]
    arrays: Mapping[str, Polynomial]
    local: Mapping[str, Polynomial]
    grid: list[Polynomial] | None
    block: list[Polynomial] | None
    whole: Collection[int] = ()
    cleared: Collection[str] = ()
    temporary: Collection[str] = ()

    def number(self, name: str) -> int | None:
        """The number that a name of the host has."""
        return self.scope.notes.numbers.get(name)

    def threads(self, extent: Polynomial) -> int | None:
        """The number of threads that an extent of the block has, which may be a quotient; None if it is unknown."""
        (only, *more) = [*extent] or [()]
        parts = self.scope.quotients.get(only[0]) if not more and len(only) == 1 and extent[only] == 1 else None
        if parts is None:
            return self.number_of(extent)
        above, below = map(self.number_of, parts)
        return above // below if above is not None and below else None

    def number_of(self, value: Polynomial) -> int | None:
        """The number that a polynomial of the host has; None if it is unknown."""
        total = 0
        for product, factor in value.items():
            for name in product:
                number = self.number(name)
                if number is None:
                    return None
                factor *= number
            total += factor
        return total


def sites(
    program: HostProgram,
    step: Prototype,
    item_bytes: ItemBytes,
    fields: Mapping[str, StructField],
    pointers: Sequence[StructPointer],
    with_callers: bool,
) -> Iterator[Site]:
    """The launches of a kernel; each over the names of the functions that call the launching one, or over those of the
    launching one alone."""
    notes, parameters = Notes(), step.parameters or ()
    found = [each for each in launches(program, step.name, len(parameters)) if each.arguments]
    whole = [each for each in found if len(each.arguments) == len(parameters)]  # others may be of another class
    for launch in whole or [each for each in found if len(each.arguments) < len(parameters)]:
        own = HostScope(program, notes, launch.function, launch.position)
        for scope in chains(program, notes, launch.function, launch.position) if with_callers else [own]:
            of_grid = HostScope(program, notes, *launch.enqueued) if launch.enqueued else scope
            grid, block = (
                in_blocks(of_grid, launch.grid, launch.block, launch.axes)
                if launch.axes
                else (scope.extents(launch.grid), scope.extents(launch.block))
            )
            given = [*zip(parameters, launch.arguments, strict=False)]
            made = tensors.is_made_of_zeros
            cleared = {p.name for p, each in given if is_cleared(launch, each) or made(launch.function, each)}
            yield Site(
                scope,
                {**_scalars(scope, step, launch, fields), **_template_values(scope, step, launch)},
                _arrays(scope, step, launch, item_bytes, pointers),
                _local(scope, step, launch, item_bytes),
                None if {} in (grid or ()) else grid,  # no launch has an extent of 0
                block,
                whole_axes(of_grid, launch.grid, grid) if launch.axes else _floored(scope, grid, block),
                cleared,
                {p.name for p, words in given if p.name in cleared and is_temporary(launch, words)},
            )


def _floored(scope: HostScope, grid: Sequence[Polynomial] | None, block: Sequence[Polynomial] | None) -> list[int]:
    """The axes on which a grid has as many blocks as fit into a number of elements."""
    pairs = enumerate(zip(grid or (), block or (), strict=False))
    return [axis for axis, (blocks, threads) in pairs if (_divisor(scope, blocks)) == threads != {(): 1}]


def _divisor(scope: HostScope, blocks: Polynomial) -> Polynomial | None:
    """By what a quotient divides; None for anything else."""
    name = "".join(*blocks) if len(blocks) == 1 else ""
    return scope.quotients[name][1] if name in scope.quotients else None


def _scalars(
    scope: HostScope, step: Prototype, launch: LaunchSite, fields: Mapping[str, StructField]
) -> dict[str, Polynomial]:
    given = [*zip(step.parameters or (), launch.arguments, strict=False)]
    found = {parameter.name: scope.polynomial(words) for parameter, words in given if not parameter.is_pointer}
    passed = {parameter.name: words for parameter, words in given}
    for name, field in fields.items():
        if words := _field(_begun(scope, passed.get(field.parameter, ())), field):
            found[name] = scope.polynomial(words)
    return found


def _begun(scope: HostScope, words: Sequence[str]) -> Sequence[str]:
    """A variable as its initialiser, `Params{n, 0.5f}`, if it has one in braces and nothing else assigns to it."""
    if len(words) != 1:
        return words
    assignments = scope.function.assignments
    (only, *more) = [each.words for each in assignments.get(words[0], ())] or [()]
    has_members = any(name.startswith(f"{words[0]}.") for name in assignments)
    return ["", *only] if only[:1] == ("{",) and not more and not has_members else words


def _field(words: Sequence[str], field: StructField) -> Sequence[str]:
    """The value of a field of a struct that is passed as a variable or as `Params{n, 0.5f}`; empty if it is unclear."""
    if words and all(word == "." or word.isidentifier() for word in words):
        return [*words, ".", field.name]
    if len(words) > 2 and words[1] in "{(" and matching(words, 1) == len(words) - 1:
        values = split_arguments(words[2:-1])
        return values[field.place] if words[1] == "{" and field.place < len(values) else ()
    return ()


def _pointer(words: Sequence[str], pointer: StructPointer) -> tuple[str, ...]:
    """The value of a pointer in a struct, as that of a field; empty if it is unclear."""
    name, *inner = pointer.path
    if pointer.place is not None or not (own := _field(words, StructField(pointer.parameter, name, pointer.number))):
        return ()
    return (*own, *(word for each in inner for word in (".", each)))


def _template_values(scope: HostScope, step: Prototype, launch: LaunchSite) -> dict[str, Polynomial]:
    kinds = step.template or {}
    given = zip(kinds, launch.template, strict=False)
    return {name: scope.polynomial(words) for name, words in given if not is_type(kinds[name])}


def _arrays(
    scope: HostScope, step: Prototype, launch: LaunchSite, item_bytes: ItemBytes, pointers: Sequence[StructPointer]
) -> dict[str, Polynomial]:
    found, given = dict[str, Polynomial](), [*zip(step.parameters or (), launch.arguments, strict=False)]
    passed = {parameter.name: words for parameter, words in given}
    given += [(each.array, _pointer(_begun(scope, passed.get(each.parameter, ())), each)) for each in pointers]
    for parameter, words in given:
        known = memory(scope, words) if parameter.is_pointer and parameter.stars < 2 else None
        count = _count(known, item_bytes(parameter), parameter) if known is not None else None
        if count is not None and scope.notes.is_clear(count):
            found[parameter.name] = count
    return found


def _local(scope: HostScope, step: Prototype, launch: LaunchSite, item_bytes: ItemBytes) -> dict[str, Polynomial]:
    found = dict[str, Polynomial]()
    for parameter, words in zip(step.parameters or (), launch.arguments, strict=False):
        if parameter.is_pointer and words[:2] in _LOCAL:
            bytes_ = Allocation(scope.polynomial(words[2:-1]))
            count = _count(bytes_, item_bytes(parameter), parameter)
            if count is not None and scope.notes.is_clear(count):
                found[parameter.name] = count
    if launch.shared:
        shared = _count(Allocation(scope.polynomial(launch.shared)), 1, Parameter("", "char", False, False))
        if shared is not None and scope.notes.is_clear(shared):
            found[SHARED] = shared
    return found


def _count(found: Allocation, item_bytes: int | None, parameter: Parameter) -> Polynomial | None:
    """The elements of an array in allocated memory; None if that is not certain."""
    amount, element = found.amount, found.element
    if not element:
        units = {name for product in amount for name in product if name.startswith("sizeof (")}
        each = [sum(name in units for name in product) for product in amount]
        if not units:
            return _divided(amount, item_bytes) if item_bytes else None
        if len(units) > 1 or set(each) != {1}:
            whole = _in_bytes(amount, units)
            return _divided(whole, item_bytes) if whole is not None and item_bytes else None
        amount = {tuple(name for name in product if name not in units): f for product, f in amount.items()}
        element = units.pop().removeprefix("sizeof (").removesuffix(")").strip()
    own = _typed(element)
    size = _bytes_of(own)
    if own.type == parameter.type or size is None or item_bytes is None:
        return amount
    return _divided({product: factor * size for product, factor in amount.items()}, item_bytes)


def _typed(element: str) -> Parameter:
    """A parameter of the type of an element of host code."""
    words = (_OF_LIBRARIES.get(word, word) for word in element.split() if word not in ("const", "struct"))
    return Parameter("", " ".join(words), False, False)


def _bytes_of(own: Parameter) -> int | None:
    return None if own.dtype is None else DTYPES[own.dtype].itemsize * own.width


def _in_bytes(amount: Polynomial, units: Collection[str]) -> Polynomial | None:
    """A number of bytes in which products have several `sizeof` or none; None if the type of one is unknown."""
    sizes = {unit: _bytes_of(_typed(unit.removeprefix("sizeof (").removesuffix(")").strip())) for unit in units}
    total: Polynomial = {}
    for product, factor in amount.items():
        for size in (sizes[name] for name in product if name in units):
            if size is None:
                return None
            factor *= size
        total = added(total, {tuple(name for name in product if name not in units): factor})
    return total


def _divided(amount: Polynomial, by: int) -> Polynomial | None:
    return {p: f // by for p, f in amount.items()} if all(f % by == 0 for f in amount.values()) else None
