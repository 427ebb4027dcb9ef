"""Reads the parameters of a kernel, and what the source and the host code say of their types."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting import by_value, fields
from tuner.drafting.arrays import vector_casts
from tuner.drafting.arrays.byte_offsets import Moved, in_elements
from tuner.drafting.by_value import Structs
from tuner.drafting.expansion import is_warp
from tuner.drafting.fields import StructField, StructPointer
from tuner.drafting.host.texts import defined, texts
from tuner.drafting.kernel_file import KernelFile
from tuner.drafting.knobs import proposals
from tuner.drafting.knobs.templates import Templates, is_type
from tuner.drafting.reached import is_declared
from tuner.drafting.roles import uses
from tuner.space.dtypes import DTYPES
from tuner.space.sources import includes
from tuner.space.sources.prototype import Parameter, Prototype
from tuner.space.sources.type_names import resolved

if TYPE_CHECKING:
    from tuner.drafting.host.launch_site import LaunchSite
    from tuner.drafting.host.program import HostProgram

_OF_OPENCL = re.compile(r"(?:(?:clk_)?event|queue|ndrange|reserve_id|atomic_\w+)_t|atomic_\w+|pipe")  # built-in types
_TRUTHS = {"TRUE", "FALSE", "NULL"}  # macros of programs, which are no knobs
_DEVICE = re.compile(r"^[^\n(){}#]*\b__device__\b[^;(){}=]*?(\w+)\s*(?:\[[^;(){}=]*\]\s*)?(?:=[^;]*)?;", re.MULTILINE)
_CONSTANT = re.compile(r"\b__constant__\s+(?:const\s+)?([A-Za-z_][\w ]*?)\s+(\w+)\s*((?:\[[^\[\];]*\]\s*)*);")


class KernelParameters:
    """The parameters of one kernel of a file, or of several steps; `entry` names them, separated by commas. `others`
    are the other files of the program that have host code; if there are none, it is looked for beside the source.

    Raises RequestError if the file cannot be read, or if it has no kernel `entry`.
    """

    def __init__(
        self,
        source: Path,
        entry: str | None,
        include: Sequence[Path] = (),
        others: Sequence[Path] = (),
        keeps_bytes: bool = False,
    ) -> None:
        self._file = file = KernelFile(source, entry, include)
        self._others = others
        self.include, self.is_cuda, self.is_declared = file.include, file.is_cuda, file.is_declared
        self.is_cpp = file.is_cpp
        self.source, self.languages, self.reached = source, file.languages, file.reached
        self.steps: Sequence[Prototype] = file.steps
        self.code, self.text, self.own, self.missing = file.code, file.text, file.own, file.missing
        if file.untold:
            file.build_with(defined(self._host_texts))
            self.steps = file.steps
        self._types = file.types
        self.defined, of_list = file.defined, file.flags_of_parameters
        self.flags_of_parameters = [*of_list, *(name for name in file.flags_of_types if name not in of_list)]
        self.tested_by_parameters, self.overloaded = file.tested_by_parameters, file.overloaded
        self.tested_around_types = file.tested_around_types
        if len(self.steps) > 1 and self.launches:
            from tuner.drafting.host.passed import by_host

            self.steps = by_host(self.steps, self.launches)
        self.moved = Moved(self.steps) if keeps_bytes else in_elements(self.steps)
        self.steps = [vector_casts.in_numbers(step) for step in self.moved.steps]
        self.fields, self.pointers = dict[str, StructField](), list[StructPointer]()
        if self._takes_structs:
            structs = Structs(self._texts, self._integers, ())
            if "opencl" not in self.languages:  # whose structs cannot have any
                self.pointers = fields.pointers(self.steps, structs.get, structs.evaluated)
            self.steps = [fields.without_copies(step, structs.get) for step in self.steps]
            self.fields = fields.sizes(self.steps, structs.get)
            self.steps = [fields.plain(step, self.fields, self.pointers) for step in self.steps]
        self.prototype = self.steps[0]

    @property
    def _takes_structs(self) -> bool:
        """Whether a step takes anything by value that is no number."""
        every = [p for step in self.steps for p in step.parameters or ()]
        return any(not p.is_pointer and p.dtype is None and not p.kind for p in every)

    @cached_property
    def templates(self) -> Templates:
        """The template parameters of the steps, and the types that a build gives to kernels in OpenCL."""
        is_whole = self.languages == ["opencl"] and not self.missing
        return Templates(self.steps, self.parameters, self.text, self.classes, self._types_of_build if is_whole else ())

    @property
    def _types_of_build(self) -> list[str]:
        """The types of arrays that nothing in the text defines."""
        named = (p.type for p in self.parameters if p.is_pointer and p.dtype is None and not p.kind)
        names = (name for name in dict.fromkeys(named) if re.fullmatch(r"[A-Za-z_]\w*", name))
        return [name for name in names if not is_declared(self.text, name) and not _OF_OPENCL.fullmatch(name)]

    @cached_property
    def classes(self) -> dict[str, tuple[str, ...]]:
        """The type parameters of templates that are classes, each with those that the host passes."""
        if not any(is_type(kind) for step in self.steps for kind in (step.template or {}).values()):
            return {}
        from tuner.drafting.host.classes import classes, qualified

        defined = frozenset[str]().union(*map(by_value.names, self._texts))
        found = classes(self.steps, self.program, defined)
        return {name: tuple(qualified(each, self._texts, defined) for each in given) for name, given in found.items()}

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters of all steps, each name once; empty if any parameter list is unknown or has unnamed ones.

        A parameter is const only if it is const in every step. Its class has the place of a type parameter.
        """
        every = [parameter for step in self.steps for parameter in self.taken(step)]
        if None in [step.parameters for step in self.steps] or not all(p.name.isidentifier() for p in every):
            return ()
        names = dict.fromkeys(parameter.name for parameter in every)
        alike = {name: [parameter for parameter in every if parameter.name == name] for name in names}
        return tuple(replace(self._typed(same[0]), is_const=all(p.is_const for p in same)) for same in alike.values())

    def taken(self, step: Prototype) -> list[Parameter]:
        """The parameters of a step, each struct after the arrays that it points to."""
        found = list[Parameter]()
        for parameter in step.parameters or ():
            found += [each.array for each in self.pointers if each.parameter == parameter.name]
            found.append(parameter)
        return found

    def _names(self, step: Prototype) -> set[str]:
        return {parameter.name for parameter in self.taken(step)}

    def _typed(self, parameter: Parameter) -> Parameter:
        given = self.classes.get(parameter.type)
        return replace(parameter, type=given[0]) if given else parameter

    @property
    def takes_nothing(self) -> bool:
        """Whether no step takes an argument."""
        return all(step.parameters == () for step in self.steps)

    @property
    def device_variables(self) -> list[str]:
        """The `__device__` variables that the steps read."""
        return [name for name in dict.fromkeys(_DEVICE.findall(self.code)) if name in self.reached]

    @property
    def removed_textures(self) -> list[str]:
        """The texture and surface references that the steps read, which CUDA 12 removed."""
        pattern = r"\b(?:texture|surface)\s*<[^;{}()]*>\s*(\w+)\s*;"
        found = (name for text in self._texts for name in re.findall(pattern, text)) if self.is_cuda else ()
        return [name for name in dict.fromkeys(found) if name in self.reached]

    @property
    def functors(self) -> list[str]:
        """The classes of the source that can be called."""
        from tuner.drafting.host.classes import functors

        return [name for text in self._texts for name in functors(text)]

    def types_of(self, name: str) -> list[str]:
        """The distinct types of a parameter in the steps; several mean that the steps disagree."""
        every = (p for step in self.steps for p in self.taken(step) if p.name == name)
        return list(dict.fromkeys(f"{p.type or '...'}{' *' * bool(p.is_pointer)}" for p in every))

    def is_handed_on(self, name: str) -> bool:
        """Whether a later step reads an array that an earlier one writes, so that it may be scratch."""
        const = [p.is_const for step in self.steps for p in self.taken(step) if p.name == name]
        return False in const and True in const[const.index(False) :]

    @cached_property
    def constants(self) -> dict[str, tuple[Parameter, list[str]]]:
        """The `__constant__` variables that the kernels read and the host fills, with their extents."""
        found = {
            name: (
                Parameter(name, resolved(" ".join(type_.split()), self._types), True, True),
                re.findall(r"\[\s*([^\]]*?)\s*\]", extents),
            )
            for type_, name, extents in _CONSTANT.findall(self.code)
        }
        return {name: each for name, each in found.items() if name in self.reached}

    def is_local(self, parameter: Parameter) -> bool:
        """Whether a parameter is in OpenCL local memory."""
        return re.search(rf"\b(__local|local|LOCAL)\b[^,;)\[]*\b{parameter.name}\b", self.code) is not None

    @cached_property
    def launches(self) -> list[LaunchSite]:
        """A launch of each step, all in one function; empty if host code has none."""
        from tuner.drafting.host.passed import launched

        return launched(self.steps, self.program) if self.program else []

    @cached_property
    def program(self) -> HostProgram | None:
        """The host code around the kernels; None if there is none."""
        from tuner.drafting.host.program import HostProgram

        return HostProgram(self._host_texts, () if self._is_marked else self.reached) if self._host_texts else None

    @property
    def _is_marked(self) -> bool:
        """Whether kernels are marked as such; those in C are functions that the host calls."""
        return any(step.is_kernel for step in self.steps)

    @cached_property
    def _host_texts(self) -> list[str]:
        return texts(self.source, self.include, [step.name for step in self.steps], self._others, self._is_marked)

    @cached_property
    def _texts(self) -> list[str]:
        """The texts that may define classes: the kernels' first, which lacks those of a CUDA host."""
        whole = [includes.without_comments(includes.text_of(self.source))] if self.is_cuda else []
        return [self.text, *(self._host_texts or whole)]

    @cached_property
    def _integers(self) -> dict[str, int]:
        """The macros and constants of the text that are integers."""
        return {name: int(knob.default) for name, knob in self._numbers_of_text(()).items()}

    def _numbers_of_text(self, taken: Collection[str]) -> dict[str, proposals.Knob]:
        """Knobs for the integers that the text defines, except for the names `taken`; of several definitions of a name,
        for that of a plain build."""
        every = [*proposals.of_code(self.text, taken)]
        found = dict(every)
        if several := {name for name, knob in every if knob.default != found[name].default}:
            built = proposals.of_code(self._file.text_of_plain_build, taken)
            found |= {name: knob for name, knob in built if name in several}
        return found

    def parts(self, parameter: Parameter) -> int:
        """The scalars that an element occupies in memory: in OpenCL, a vector of 3 occupies 4."""
        return 4 if parameter.width == 3 and "cuda" not in self.languages else parameter.width

    def is_complex(self, parameter: Parameter) -> bool:
        """Whether the source declares a pair of numbers as a complex number of CUDA."""
        return re.search(rf"\bcu(?:Float|Double)?Complex\b[^,;(){{}}]*\b{parameter.name}\b", self.code) is not None

    def struct_bytes(self, parameter: Parameter) -> int | None:
        """The bytes of an element of an array of structs; None if it is no struct, or of unknown layout."""
        return self.structs.nbytes(parameter, opencl="cuda" not in self.languages)

    def struct_numbers(self, parameter: Parameter) -> tuple[str, int] | None:
        """The dtype and the count of the numbers in an element of an array of structs; None if they are none alike."""
        return self.structs.numbers(parameter, opencl="cuda" not in self.languages)

    def numpy_dtypes(self, parameter: Parameter) -> dict[str, str]:
        """The NumPy dtypes of the elements of an array of structs, the last that of an element; empty for others."""
        return self.structs.numpy(parameter, opencl="cuda" not in self.languages)

    def element_bytes(self, parameter: Parameter) -> int:
        """The bytes of an element of an array; 4 per scalar if its type is unknown."""
        if parameter.dtype is None and (whole := self.struct_bytes(parameter)):
            return whole
        return 8 if parameter.stars > 1 else DTYPES[parameter.dtype or "float32"].itemsize * self.parts(parameter)

    @cached_property
    def structs(self) -> Structs:
        """The structs that the source defines."""
        return Structs(self._texts, self.numbers, self.templates.types)

    def is_class(self, parameter: Parameter) -> bool:
        """Whether a parameter, or an element of an array, is of a class: no number and no vector."""
        kind = parameter.type
        return kind in self.classes or "<" in kind or self.structs.defines(kind)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The macros and constants that are integers, without the warp size."""
        found = self._integers.items()
        reached = self.reached - _TRUTHS
        numbers = {name: value for name, value in found if name in reached and not is_warp(name, value)}
        hidden = {parameter.name for parameter in self.parameters}
        own = {name: value for name, value in numbers.items() if name not in hidden}
        return {name: value for name, value in own.items() if not uses.is_case(name, self.body)}

    @cached_property
    def body(self) -> str:
        """The tokens of all steps, joined by blanks."""
        return " ".join(word for step in self.steps for word in step.body)
