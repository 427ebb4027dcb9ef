"""Facts about a kernel, inferred from its source: arguments, sizes, knobs, block sizes, roles of arrays."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting import by_value, fields, roles
from tuner.drafting.arrays.choices import Choices
from tuner.drafting.arrays.grids import Grids
from tuner.drafting.arrays.shapes import Names, Shapes
from tuner.drafting.by_value import Structs
from tuner.drafting.calls import Calls
from tuner.drafting.expansion import is_warp
from tuner.drafting.fields import StructField, StructPointer
from tuner.drafting.host.texts import defined, texts
from tuner.drafting.kernel_file import KernelFile
from tuner.drafting.knobs import proposals
from tuner.drafting.knobs.proposals import Knob
from tuner.drafting.knobs.templates import Templates, is_type
from tuner.drafting.reached import is_declared
from tuner.languages import LANGUAGES
from tuner.space.dtypes import DTYPES
from tuner.space.sources import includes
from tuner.space.sources.prototype import Parameter, Prototype, dynamic_arrays, prototypes
from tuner.space.sources.tokens import definitions, words
from tuner.space.sources.type_names import resolved

_WORD_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)[ \t]+([A-Za-z_]\w*)[ \t]*$", re.MULTILINE)
if TYPE_CHECKING:
    from tuner.drafting.host.launch_site import LaunchSite
    from tuner.drafting.host.program import HostProgram
    from tuner.drafting.launched import HostLaunches

_OF_OPENCL = re.compile(r"(?:(?:clk_)?event|queue|ndrange|reserve_id|atomic_\w+)_t|atomic_\w+|pipe")  # built-in types
_TRUTHS = {"TRUE", "FALSE", "NULL"}  # macros of programs, which are no knobs
_DEVICE = re.compile(r"^[^\n(){}#]*\b__device__\b[^;(){}=]*?(\w+)\s*(?:\[[^;(){}=]*\]\s*)?(?:=[^;]*)?;", re.MULTILINE)
_CONSTANT = re.compile(r"\b__constant__\s+(?:const\s+)?([A-Za-z_][\w ]*?)\s+(\w+)\s*((?:\[[^\[\];]*\]\s*)*);")


class Facts:
    """The facts about one kernel of a file, or about several steps; `entry` names them, separated by commas. `others`
    are the other files of the program that have host code; if there are none, it is looked for beside the source.

    Raises RequestError if the file cannot be read, or if it has no kernel `entry`.
    """

    def __init__(
        self, source: Path, entry: str | None, include: Sequence[Path] = (), others: Sequence[Path] = ()
    ) -> None:
        file = KernelFile(source, entry, include)
        self._others = others
        self.include, self.is_cuda, self.is_declared = file.include, file.is_cuda, file.is_declared
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
    def sizes(self) -> list[str]:
        """The integer parameters that are probably sizes: not those only tested for equality or by their bits."""
        integers = self.templates.integer_types
        whole = [
            p.name
            for p in self.parameters
            if (p.type in integers and not p.is_pointer) or (p.is_pointer is False and _is_whole(p))
        ]
        whole += self.fields
        found = [name for name in whole if not roles.is_code(name, self.body)]
        every = {n: [s for s in self.steps if n in self._names(s) or n in self.fields] for n in found}
        takers = {name: " ".join(w for step in steps for w in (*step.body, ";")) for name, steps in every.items()}
        counters = {name for name, body in takers.items() if roles.is_counter(name, body)}
        return [name for name in found if name not in counters or counters.issuperset(found)]

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of arrays, inferred from indices."""
        arrays = [p for p in self.parameters if p.is_pointer and not self.is_local(p)]
        written = [p.name for p in arrays if not p.is_const]
        own = [[p.name for p in arrays if p.name in self._names(step)] for step in self.steps]
        numbers = {**self.numbers, **self.template_numbers}
        names = Names([p.name for p in arrays], written, self.sizes, numbers, own, self.template_numbers)
        return Shapes([step.body for step in self.steps], names, self.has_grid)

    def shape_of_constant(self, name: str) -> list[str]:
        """The shape of a `__constant__` variable, as its indices tell it; empty if they do not."""
        names = Names([name], [], self.sizes, self.numbers)
        return Shapes([step.body for step in self.steps], names, self.has_grid).shape(name) or []

    @cached_property
    def template_numbers(self) -> dict[str, int]:
        """The only number that launches, explicit instantiations or the default have for each template parameter."""
        found = {name: self._template_number(name, knob) for name, knob in self.templates.knobs.items()}
        return {name: number for name, number in found.items() if number is not None}

    def _template_number(self, name: str, knob: Knob) -> int | None:
        number = self.launched.number(name)
        number = self.templates.instantiated(name) if number is None else number
        if number is not None or knob.question or isinstance(knob.default, bool | str):
            return number
        return knob.default

    @cached_property
    def launched(self) -> HostLaunches:
        """What the launches in the host code around the kernels say."""
        from tuner.drafting.launched import HostLaunches  # many kernel files have no host code

        numbers = {*self.numbers, *self.given_by_build}
        return HostLaunches(self.program, self.steps, numbers, self._item_bytes, self.fields, self.pointers)

    @property
    def given_by_build(self) -> Collection[str]:
        """The names that the source does not define, but that are numbers in another file of the program."""
        return ()

    @cached_property
    def launches(self) -> list[LaunchSite]:
        """A launch of each step, all in one function; empty if host code has none."""
        from tuner.drafting.host.passed import launched

        return launched(self.steps, self.program) if self.program else []

    def passed(self, name: str) -> str:
        """The number that all launches pass for a scalar, as text; empty if host code tells none."""
        from tuner.drafting.host.passed import number

        if self.program is None:
            return ""
        every = [(step, p) for step in self.steps for p in step.parameters or () if p.name == name]
        found = {number(self.program, step, parameter) for step, parameter in every}
        return found.pop() if len(found) == 1 else ""

    def members(self, parameter: Parameter) -> dict[str, str]:
        """The numbers that the host gives to members of a struct before all launches that pass it, by member."""
        from tuner.drafting.host.passed import of_members

        every = self.structs.get(parameter.type) or ()
        return of_members(self.program, self.steps, parameter.name, every) if self.program else {}

    @cached_property
    def program(self) -> HostProgram | None:
        """The host code around the kernels; None if there is none."""
        from tuner.drafting.host.program import HostProgram

        return HostProgram(self._host_texts) if self._host_texts else None

    @cached_property
    def _host_texts(self) -> list[str]:
        return texts(self.source, self.include, [step.name for step in self.steps], self._others)

    @cached_property
    def _texts(self) -> list[str]:
        """The texts that may define classes: the kernels' first, which lacks those of a CUDA host."""
        whole = [includes.without_comments(includes.text_of(self.source))] if self.is_cuda else []
        return [self.text, *(self._host_texts or whole)]

    def _item_bytes(self, parameter: Parameter) -> int | None:
        return self.element_bytes(parameter) if parameter.dtype else self.struct_bytes(parameter)

    @cached_property
    def grids(self) -> Grids:
        """The grids of the steps, inferred from indices."""
        return Grids(self.shapes)

    @cached_property
    def choices(self) -> Choices:
        """The data-dependent indices of the steps."""
        arrays = [p for p in self.parameters if p.is_pointer]
        inputs = [p.name for p in arrays if p.is_const]
        return Choices(self.shapes.indices, [p.name for p in arrays], self.body, inputs)

    @cached_property
    def _integers(self) -> dict[str, int]:
        """The macros and constants of the text that are integers."""
        return {name: int(knob.default) for name, knob in proposals.of_code(self.text, ())}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The macros and constants that are integers, without the warp size."""
        found = self._integers.items()
        reached = self.reached - _TRUTHS
        numbers = {name: value for name, value in found if name in reached and not is_warp(name, value)}
        hidden = {parameter.name for parameter in self.parameters}
        own = {name: value for name, value in numbers.items() if name not in hidden}
        return {name: value for name, value in own.items() if not roles.is_case(name, self.body)}

    def is_quantity(self, name: str) -> bool:
        """Whether a constant only enters the kernels' results, so that it is no knob."""
        return roles.is_quantity(name, " ; ".join([self.body, *self._of_functions]), self._floats)

    @cached_property
    def _floats(self) -> set[str]:
        """The names of the kernels' floating-point numbers, of arrays of them, and of their types."""
        own = [p for step in self.steps for p in step.parameters or () if p.dtype and DTYPES[p.dtype].kind == "real"]
        types = {"float", "double", *(p.type for p in own if p.type.isidentifier())}
        declared = re.findall(rf"\b(?:{'|'.join(sorted(types))}) (\w+[^;(){{}}]*)", self.body)
        names = {name for each in declared for name in re.findall(r"(?:^|, )(\w+)", each)}
        return {*types, *(p.name for p in own), *names}

    @cached_property
    def body(self) -> str:
        """The tokens of all steps, joined by blanks."""
        return " ".join(word for step in self.steps for word in step.body)

    @cached_property
    def options(self) -> list[str]:
        """The scalar parameters that are no sizes, including those of unknown type."""
        others = [p for p in self.parameters if not p.is_pointer and not p.kind]
        scalars = [p for p in others if p.width == 1 and not self.is_class(p)]
        return [p.name for p in scalars if p.name not in self.sizes]

    @property
    def has_grid(self) -> bool:
        return any(LANGUAGES[name].has_grid for name in self.languages)

    @cached_property
    def dimensions(self) -> int:
        """The number of block dimensions (1 to 3) whose thread index the steps read."""
        return max(map(self.dimensions_of, self.steps), default=1)

    def dimensions_of(self, step: Prototype) -> int:
        """The number of block dimensions whose thread index a step reads, or a function that it may call."""
        text = "\n".join([" ".join(step.body), *self._of_functions])
        used = re.findall(r"threadIdx \. ([xyz])|get_(?:local|global)_id \( ([012]) \)", text)
        return max(("xyz".index(axis) if axis else int(number) for axis, number in used), default=0) + 1

    @property
    def reads_threads(self) -> bool:
        """Whether the source reads the block size at run time, so that the launch may choose it."""
        return re.search(r"\b(blockDim|get_local_size|get_global_id)\b", self.code) is not None

    @cached_property
    def _of_functions(self) -> list[str]:
        """The tokens of the functions that the steps may call, joined by blanks."""
        kernels = {each.name for each in prototypes(self.text) if each.is_kernel}
        every = definitions(words(self.text))
        return [" ".join(body) for _, name, _, _, body in every if name in self.reached and name not in kernels]

    def dynamic_arrays(self, step: Prototype) -> dict[str, int]:
        """The dynamic shared memory arrays that a step may use, with bytes per element (4 if unknown)."""
        if "cuda" not in self.languages:
            return {}
        if own := dynamic_arrays(" ".join(step.body)):
            return own
        whole = dynamic_arrays(self.text)
        kernels = {
            name for each in (prototypes(self.text) if whole else ()) for name in dynamic_arrays(" ".join(each.body))
        }
        called = dict(item for each in self._of_functions for item in dynamic_arrays(each).items()) if whole else {}
        return {name: size for name, size in whole.items() if name not in kernels} | called

    def waits(self, step: Prototype) -> bool:
        """Whether blocks of a step may wait for each other: an array is volatile."""
        heads = re.findall(rf"\b{re.escape(step.name)}\s*\(([^(){{}}]*)\)\s*\{{", self.text)
        return any(re.search(r"\bvolatile\b[^,]*\*", head) for head in heads)

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

    def role(self, parameter: Parameter) -> tuple[str, list[str]]:
        """The role of an array, and questions about it."""
        if self.is_handed_on(parameter.name):
            return "scratch", ["or does the caller need it? then role: out"]
        if parameter.is_const:
            return "in", []
        if parameter.name in self._temporary:
            return "scratch", []
        if parameter.name not in self._known_roles:
            pointer = next((each for each in self.pointers if each.array.name == parameter.name), None)
            found = self._role(parameter) if pointer is None else self._role_in_struct(pointer)
            self._known_roles[parameter.name] = found
        return self._known_roles[parameter.name]

    @cached_property
    def _temporary(self) -> set[str]:
        """The arrays that the host only clears for the kernel, if it keeps another one that the kernel writes."""
        found = self.launched.temporary
        kept = (p for p in self.parameters if p.is_pointer and not p.is_const and p.name not in found)
        written = any(roles.role(p.name, self.body, self._calls)[0] != "in" for p in kept if not self.is_local(p))
        return found if written else set()

    def _role(self, parameter: Parameter) -> tuple[str, list[str]]:
        first = next((step for step in self.steps if parameter.name in self._names(step)), self.prototype)
        if len(self.steps) > 1 and roles.role(parameter.name, " ".join(first.body), self._calls) == ("out", []):
            return "out", []  # what later steps read is written before
        return roles.role(parameter.name, self.body, self._calls)

    def _role_in_struct(self, pointer: StructPointer) -> tuple[str, list[str]]:
        """The role of an array in a struct, which functions of the source may get as a whole."""
        if re.search(rf"\b{re.escape(' '.join(pointer.dotted))}\b", self.body):  # an array of pointers, by a variable
            return "out", ["in, out or inout?"]
        if not pointer.is_handed_on:
            return self._role(pointer.array)
        name, member = pointer.array.name, pointer.path[-1]
        # Also without a struct, as functions of the struct read it; a local variable of that name costs a question.
        of_functions = re.sub(rf"(?:\b\w+ (?:\.|- >) )?\b{member}\b", name, " ; ".join(self._of_functions))
        if re.search(rf"\b{name}\b", f"{self.body} ; {of_functions}") is None:
            return "out", ["in, out or inout? methods access it"]
        role, asks = roles.role(name, f"{self.body} ; {of_functions}", self._calls)
        return role, asks or ([] if role == "in" else ["in, out or inout?"])

    def roles_in(self, step: Prototype) -> dict[str, str]:
        """The roles of the arrays of a step, as that step alone uses them."""
        arrays = [p for p in self.taken(step) if p.is_pointer and not self.is_local(p)]
        body = " ".join(step.body)
        return {p.name: "in" if p.is_const else roles.role(p.name, body, self._calls)[0] for p in arrays}

    @cached_property
    def _known_roles(self) -> dict[str, tuple[str, list[str]]]:
        return {}

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.text, has_references=self.is_cuda)


def _is_whole(parameter: Parameter) -> bool:
    return parameter.dtype is not None and parameter.width == 1 and DTYPES[parameter.dtype].kind == "integer"
