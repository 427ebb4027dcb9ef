"""Facts about a kernel, inferred from its source: sizes, shapes of arrays, grids, roles of arrays."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tuner.classes import cached_property
from tuner.drafting.arrays.choices import Choices
from tuner.drafting.arrays.grids import Grids
from tuner.drafting.arrays.shapes import Names, Shapes
from tuner.drafting.fields import StructPointer
from tuner.drafting.kernel_parameters import KernelParameters
from tuner.drafting.knobs.proposals import Knob
from tuner.drafting.roles import borders, inference, placing, uses
from tuner.drafting.roles.calls import Calls
from tuner.languages import LANGUAGES
from tuner.space.dtypes import DTYPES
from tuner.space.sources.prototype import Parameter, Prototype, dynamic_arrays, prototypes
from tuner.space.sources.tokens import definitions, words

if TYPE_CHECKING:
    from tuner.drafting.launched import HostLaunches


class Facts(KernelParameters):
    """The facts about one kernel of a file, or about several steps."""

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
        found = [name for name in whole if not uses.is_code(name, self.body)]
        every = {n: [s for s in self.steps if n in self._names(s) or n in self.fields] for n in found}
        takers = {name: " ".join(w for step in steps for w in (*step.body, ";")) for name, steps in every.items()}
        counters = {name for name, body in takers.items() if uses.is_counter(name, body)}
        return [name for name in found if name not in counters or counters.issuperset(found)]

    @cached_property
    def shapes(self) -> Shapes:
        """The shapes of arrays, inferred from indices."""
        arrays = [p for p in self.parameters if p.is_pointer and not self.is_local(p)]
        written = [p.name for p in arrays if not p.is_const]
        own = [[p.name for p in arrays if p.name in self._names(step)] for step in self.steps]
        known = {**self.numbers, **self.template_numbers}
        numbers = {name: number for name, number in known.items() if name not in self.settled}
        names = Names([p.name for p in arrays], written, self.sizes, numbers, own, self.template_numbers)
        bodies = [[str(self.settled.get(word, word)) for word in step.body] for step in self.steps]
        return Shapes(bodies, names, self.has_grid)

    @property
    def settled(self) -> Mapping[str, int]:
        """The constants that are no knobs, with their numbers."""
        return {}

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

    @cached_property
    def loop_variables(self) -> set[str]:
        """The scalars for which the host passes the variable of a loop around a launch."""
        from tuner.drafting.host.loops import loops

        found, program = set[str](), self.program
        for site, step in zip(self.launches, self.steps, strict=False):
            variables = {loop.variable for loop in loops(program, site.function, site.position)} if program else set()
            given = zip(step.parameters or (), site.arguments, strict=False)
            found |= {parameter.name for parameter, words in given if len(words) == 1 and words[0] in variables}
        return found

    @property
    def given_by_build(self) -> Collection[str]:
        """The names that the source does not define, but that are numbers in another file of the program."""
        return ()

    def passed(self, name: str) -> str:
        """The number that all launches pass for a scalar, as text; empty if host code tells none."""
        from tuner.drafting.host.passed import number

        if self.program is None:
            return ""
        every = [(step, p) for step in self.steps for p in step.parameters or () if p.name == name]
        found = {number(self.program, step, parameter) for step, parameter in every}
        return found.pop() if len(found) == 1 else ""

    def dtype_passed(self, name: str) -> str | None:
        """The dtype that launches pass for a type parameter of a template; None if there is none, or several."""
        from tuner.drafting.host.passed import dtype

        every = [step for step in self.steps if name in (step.template or {})] if self.program else []
        found = {dtype(self.program, step, name) for step in every if self.program}
        return found.pop() if len(found) == 1 else None

    def members(self, parameter: Parameter, sizes: Mapping[str, int | None]) -> dict[str, str]:
        """The numbers that the host gives to members of a struct before all launches that pass it, by member. `sizes`
        are the sizes that only the host has, with its numbers; they stand for these."""
        from tuner.drafting.host.passed import of_members

        every = self.structs.get(parameter.type) or ()
        return of_members(self.program, self.steps, parameter.name, every, sizes) if self.program else {}

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
    def constants_of_code(self) -> set[str]:
        """The names of numbers that code is written with: macros, constants and enumerators."""
        every = re.findall(r"\benum\b[^;{}()]*\{([^{}]*)\}", self.text)
        return {*self._integers, *(name for each in every for name in re.findall(r"(?:^|,)\s*(\w+)", each))}

    def is_quantity(self, name: str) -> bool:
        """Whether a constant only enters the kernels' results, so that it is no knob."""
        return uses.is_quantity(name, " ; ".join([self.body, *self._of_functions]), self._floats, self.computed)

    @cached_property
    def placing(self) -> set[str]:
        """The names that decide where the kernels read and write, and how often their loops run."""
        pointers = [p.name for p in self.parameters if p.is_pointer]
        return placing.names_that_place(self.body, pointers, placing.pure_functions(self.text))

    def enters_numbers(self, name: str) -> bool:
        """Whether a constant is a term or factor of floating-point numbers."""
        own = {
            "float",
            "double",
            "half",
            *(p.type for p in self.parameters if p.dtype and DTYPES[p.dtype].kind == "real"),
        }
        aliased = ((name, Parameter("", kind, False, False).dtype) for name, kind in self._types.items())
        types = own | {name for name, dtype in aliased if dtype and DTYPES[dtype].kind == "real"}
        return uses.enters_numbers(name, " ; ".join([self.body, *self._of_functions]), types)

    @cached_property
    def computed(self) -> set[str]:
        """The names of what the kernels compute from elements."""
        return uses.computed(self.body, [p.name for p in self.parameters if p.is_pointer])

    @cached_property
    def _floats(self) -> set[str]:
        """The names of the kernels' floating-point numbers, of arrays of them, and of their types."""
        own = [p for step in self.steps for p in step.parameters or () if p.dtype and DTYPES[p.dtype].kind == "real"]
        types = {"float", "double", *(p.type for p in own if p.type.isidentifier())}
        declared = re.findall(rf"\b(?:{'|'.join(sorted(types))}) (\w+[^;(){{}}]*)", self.body)
        names = {name for each in declared for name in re.findall(r"(?:^|, )(\w+)", each)}
        return {*types, *(p.name for p in own), *names}

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

    def role(self, parameter: Parameter) -> tuple[str, list[str]]:
        """The role of an array, and questions about it."""
        if self.is_handed_on(parameter.name):
            decided = self._decided_by(parameter.name)
            others = f"elements of {decided} decide where it is written: are the others 0? then zeroed: each"
            return "scratch", ["or does the caller need it? then role: out", *[others] * bool(decided)]
        if parameter.is_const:
            return "in", []
        if parameter.name in self._temporary:
            return "scratch", []
        if parameter.name not in self._known_roles:
            pointer = next((each for each in self.pointers if each.array.name == parameter.name), None)
            found = self._role(parameter) if pointer is None else self._role_in_struct(pointer)
            if found == ("out", []) and self._keeps_border(parameter.name):
                self.with_borders.add(parameter.name)
                found = "inout", []
            if found == ("out", []) and (array := self._decided_by(parameter.name)):
                is_read = any(self.roles_in(step).get(parameter.name, "out") != "out" for step in self.steps[1:])
                keeps = f"elements of {array} decide where it is written: does it keep others? then role: inout"
                found = ("inout", []) if is_read or self.launched.clears(parameter.name) else ("out", [keeps])
            self._known_roles[parameter.name] = found
        return self._known_roles[parameter.name]

    @cached_property
    def with_borders(self) -> set[str]:
        """The arrays that the kernels write except for a border, if they read nothing of them."""
        return set()

    def names_of(self, array: str) -> set[str]:
        """The names that the kernels have for an array."""
        return {array}.union(*(indices.aliases.get(array, ()) for indices in self.shapes.indices))

    def _decided_by(self, name: str) -> str:
        """The array whose elements decide where another one is written, in all steps that only write it."""
        arrays = [p.name for p in self.parameters if p.is_pointer and p.name != name]
        if not arrays or self.choices.is_placed(name):
            return ""  # another question says that atomics choose its elements
        others = {each: array for array in arrays for each in self.names_of(array)}
        writing = [step for step in self.steps if self.roles_in(step).get(name) == "out"]
        found = [inference.decided_by(self.names_of(name), " ".join(step.body), others) for step in writing]
        placing = [each for each in self.choices.indices_into(name) if each != name] if writing else []
        return found[0] if found and all(found) else next(iter(placing), "")

    def _keeps_border(self, name: str) -> bool:
        scalars = [p.name for p in self.parameters if not p.is_pointer]
        every = [index for indices in self.shapes.indices for index in indices.accesses.get(name, ())]
        is_part = bool(every) and all(borders.is_behind(index, [*scalars, *self.fields]) for index in every)
        return is_part or borders.is_kept(name, self.body, scalars)

    @cached_property
    def _temporary(self) -> set[str]:
        """The arrays that the host only clears for the kernel, if it keeps another one that the kernel writes."""
        found = self.launched.temporary
        kept = (p for p in self.parameters if p.is_pointer and not p.is_const and p.name not in found)
        written = any(inference.role(p.name, self.body, self._calls)[0] != "in" for p in kept if not self.is_local(p))
        return found if written else set()

    def _role(self, parameter: Parameter) -> tuple[str, list[str]]:
        first = next((step for step in self.steps if parameter.name in self._names(step)), self.prototype)
        if len(self.steps) > 1 and inference.role(parameter.name, " ".join(first.body), self._calls) == ("out", []):
            return "out", []  # what later steps read is written before
        return inference.role(parameter.name, self.body, self._calls)

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
        role, asks = inference.role(name, f"{self.body} ; {of_functions}", self._calls)
        return role, asks or ([] if role == "in" else ["in, out or inout?"])

    def roles_in(self, step: Prototype) -> dict[str, str]:
        """The roles of the arrays of a step, as that step alone uses them."""
        arrays = [p for p in self.taken(step) if p.is_pointer and not self.is_local(p)]
        body = " ".join(step.body)
        return {p.name: "in" if p.is_const else inference.role(p.name, body, self._calls)[0] for p in arrays}

    @cached_property
    def _known_roles(self) -> dict[str, tuple[str, list[str]]]:
        return {}

    @cached_property
    def _calls(self) -> Calls:
        return Calls(self.text, has_references=self.is_cuda)


def _is_whole(parameter: Parameter) -> bool:
    return parameter.dtype is not None and parameter.width == 1 and DTYPES[parameter.dtype].kind == "integer"
