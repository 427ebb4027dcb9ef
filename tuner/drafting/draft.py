"""Drafts a space file from a kernel's source, with a `# ?` question wherever the source leaves something open."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tuner.classes import cached_property
from tuner.drafting.arguments.guessed_shapes import MOST_GUESSED
from tuner.drafting.arguments.section import DraftedArguments
from tuner.drafting.chosen_knobs import ChosenKnobs
from tuner.drafting.extents import DraftedExtents
from tuner.drafting.references import DraftedReference
from tuner.drafting.repeats import Repeats
from tuner.drafting.yaml_text import asked, listed, name_of, remark, word
from tuner.errors import RequestError
from tuner.quoting import shown
from tuner.space.dtypes import DTYPES
from tuner.space.sources import includes
from tuner.space.sources.prototype import Prototype

MOST_FILES = 400  # beside the source that are looked at


class Draft:
    """A draft of a space file. Raises RequestError if the source cannot be read or has no kernel `entry`."""

    def __init__(
        self,
        source: Path,
        entry: str | None,
        output: Path,
        include: Sequence[Path] = (),
        others: Sequence[Path] = (),
    ) -> None:
        self.facts, self.source, self.output = ChosenKnobs(source, entry, include, others), source, output
        if self.facts.takes_nothing:
            raise RequestError(f"{shown(source)}: {self._without_arguments()}")
        self.told = DraftedExtents(self.facts)
        if not self.told.knows_pitches:
            self.facts = ChosenKnobs(source, entry, include, others, keeps_bytes=True)
            self.told = DraftedExtents(self.facts)
        self.extents = self.told.extents
        self.arguments = DraftedArguments(self.facts, self.told)
        self.shapes = self.arguments.shapes

    def text(self) -> str:
        """The content of the space file."""
        reference = DraftedReference(self.facts, self.told, self.arguments)
        lines = [
            f"# Written by `tune new {self.source.name}`. Each `# ?` comment is a question: answer it on its line,",
            f"# then remove the comment. `tune validate {self.output.name}` lists the open questions.",
            *self._python_host(),
            f"title: {word(', '.join(step.name for step in self.facts.steps))}",
            "operation:",
            *self._sizes(),
            *self.arguments.lines(),
            *reference.derive(),
            *reference.reference(),
            *reference.tolerance(),
            self._work(),
            *self._kernel(),
            *self._parameters(),
            *self._restrictions(),
            *(self._launch() if len(self.facts.steps) == 1 else self._steps()),
            *self._repeats.lines(self._step, self.arguments.exchanged),
            *self.arguments.data(),
        ]
        return "\n".join(lines) + "\n"

    def _python_host(self) -> list[str]:
        """A comment about a file in Python beside the source that names it, if no host code launches the kernel."""
        beside = sorted(self.source.absolute().parent.glob("*.py"))[:MOST_FILES] if self.facts.has_grid else []
        for file in beside if not self.facts.launches else ():
            try:
                is_host = self.source.name in includes.text_of(file)
            except OSError:
                continue
            if is_host:
                what = "its build options, grid and block belong here"
                return [f"# {shown(file.name)} names this source, but host code in Python is not read: {what}."]
        return []

    def _without_arguments(self) -> str:
        """The message about kernels without arguments."""
        kernels, variables = " and ".join(step.name for step in self.facts.steps), self.facts.device_variables
        takes = f"{kernels} {'takes' if len(self.facts.steps) == 1 else 'take'} no arguments"
        given = f"the variables {shown(', '.join(variables))}" if variables else "the arrays that it reads and writes"
        return (
            f"{takes}, so there is nothing to fill and to compare; let the kernel take {given} as arguments, "
            f"or name it as a step beside kernels that take arrays: --entry {self.facts.prototype.name},OTHER"
        )

    def _sizes(self) -> list[str]:
        facts = self.facts
        ask, default = "which sizes does the problem have? the kernel takes none", ""
        if self._is_fixed():
            ask = "the source fixes all extents, but a space file needs a size: is this one, of 1, right?"
            default = " 1"
        about = "  # `tune FILE SIZE` sets them; a number here is a default"
        if blocks := [name for name in facts.shapes.new_sizes if name in self.extents]:
            about += f"; {' and '.join(blocks)}, which no kernel takes, is the number of blocks"
        told = self.told.sizes
        why = "  # the source defines it: here, each run sets it; under `parameters:`, it is a knob"
        defaults = {name: f" {number}{why}" for name, number in facts.size_macros.items()}
        of_host = "  # as in the host code; no kernel takes it"
        defaults |= {
            name: f"{f' {number}' if number else ''}{of_host}"
            for name, number in self.told.new_sizes.items()
            if name not in blocks
        }
        defaults |= {name: f" {number}  # as in the host code" for name, number in self._of_structs().items()}
        texts = [*(extent for array in self.shapes.arrays for extent in self.shapes.shape(array.name))]
        exponents = {name for each in texts for name in re.findall(r"\b2 \*\* (\w+)", each)}
        defaults |= {name: " 20  # an exponent" for name in exponents if name not in defaults}
        lines = [f"  sizes:{about if told else asked(ask)}"]
        lines += [f"    {word(name)}:{defaults.get(name, default)}" for name in self.extents]
        return [*lines, *self._options(), *self._types()]

    def _of_structs(self) -> dict[str, str]:
        """The whole numbers that the host gives to members of structs, by the sizes of their names."""
        structs = {p.name: self.facts.members(p, {}) for p in self.facts.parameters if not p.is_pointer}
        found = {size: structs[field.parameter].get(field.name, "") for size, field in self.facts.fields.items()}
        return {name: number for name, number in found.items() if name in self.extents and number.isdecimal()}

    def _options(self) -> list[str]:
        """The line of `options`, with the numbers that the host passes."""
        names = self.arguments.options
        if not names:
            return []
        whole = {p.name for p in self.facts.parameters if p.dtype and DTYPES[p.dtype].kind in ("boolean", "integer")}
        whole |= self.facts.fields.keys()
        known = {name: value for name in names if (value := _option(self.facts.passed(name), name in whole))}
        known |= {name: str(number) for name, number in self.told.options.items() if number is not None}
        each = (f"{word(name)}: {known.get(name) or (1 if name in whole else _usual(name))}" for name in names)
        others = [name for name in names if name not in known]
        of_others = f" of {listed(others)}" if known else ""
        about = ["as the host passes them"] * bool(known) + [f"write the usual values{of_others}"] * bool(others)
        return [f"  options: {{{', '.join(each)}}}  # {'; '.join(about)}"]

    def _types(self) -> list[str]:
        templates = self.facts.templates
        if not templates.types:
            return []
        other = "float16" if re.search(r"\b(?:cuda_fp16|__half|half)\b", self.facts.code) else "float64"
        usual = {
            name: ["int32", "int64"] if name in templates.integer_types else ["float32", other]
            for name in templates.types
        }
        first = {name: [dtype] for name in usual if (dtype := self.facts.dtype_passed(name))}
        each = (
            f"{word(name)}: [{', '.join(dict.fromkeys([*first.get(name, ()), *types]))}]"
            for name, types in usual.items()
        )
        about = "the allowed types; the first is the default" + ", as the host launches it" * bool(first)
        return [f"  types: {{{', '.join(each)}}}  # {about}"]

    def _is_fixed(self) -> bool:
        """Whether the kernel takes no size, and the source fixes all extents as numbers."""
        known = [self.told.shape(array.name) is not None for array in self.shapes.arrays]
        return bool(known) and all(known) and not self.told.sizes

    def _work(self) -> str:
        moved = Counter[tuple[str, ...]]()
        for array in self.shapes.arrays:
            moved[tuple(self.shapes.shape(array.name))] += self.facts.element_bytes(array)
        amount = " + ".join(
            " * ".join([str(size), *(f"({each})" if " " in each else each for each in shape)])
            for shape, size in moved.items()
        )
        return f"  # bytes: {amount or 4}    # bytes moved, for GB/s; or flops: for GFLOP/s"

    def _kernel(self) -> list[str]:
        facts = self.facts
        lines = [f"source: {self._path(self.source)}"]
        if facts.is_declared:
            lines.append(f"languages: [{', '.join(facts.languages)}]")
        lines += ["compile_options: {c: [-xc++]}"] * facts.is_cpp
        folders = ", ".join(map(self._path, facts.include))
        if len(facts.steps) == 1:
            lines.insert(0, f"kernel: {word(facts.templates.entry(facts.prototype))}{self._about(facts.prototype)}")
        return [*lines, f"include: [{folders}]{asked(facts.missing)}"] if facts.missing or folders else lines

    def _classes(self, step: Prototype) -> str:
        """A question or a comment about the type parameters of a kernel that are classes."""
        given = {name: of for name, of in self.facts.classes.items() if name in (step.template or {})}
        if open_ := [name for name, of in given.items() if not of]:
            such = f", such as {shown(', '.join(known))}" if (known := self.facts.functors) else ""
            whole = f"{' and '.join(open_)} {'is a class' if len(open_) == 1 else 'are classes'} of the source"
            return asked(f"{whole}, and no number: which{such}? write it in the place of {{{open_[0]}}}")
        several = [f"{name} is also {shown(' and '.join(of[1:]))}" for name, of in given.items() if len(of) > 1]
        return f"  # in other launches, {'; '.join(several)}" if several else ""

    def _about(self, step: Prototype) -> str:
        """The questions and remarks on the line of the only kernel."""
        if removed := self.facts.removed_textures:
            names = f"{' and '.join(removed)}: a reference to a texture or surface, which CUDA 12 removed"
            return asked(f"{names}; let the kernel take a cudaTextureObject_t, of kind: texture")
        if self.facts.overloaded:
            own = f"give one a name of its own, or call it from a kernel in a file that includes {self.source.name}"
            return asked(f"the source has several kernels of this name, between which `kernel:` cannot choose: {own}")
        return self._classes(step) or asked(self._repeats.question) or self._repeats.remark

    @cached_property
    def _repeats(self) -> Repeats:
        known = [*self.extents, *self.arguments.options, *self.facts.knobs]
        return Repeats(self.facts, known, self.told.values)

    def _path(self, path: Path) -> str:
        """A path as the space file writes it: from the folder of that file."""
        return word(os.path.relpath(path.resolve(), self.output.resolve().parent))

    def _parameters(self) -> list[str]:
        knobs, words = self.facts.knobs, self._words()
        if not knobs and self.facts.languages == ["cuda"]:
            why = "the source has no number that may vary, so this is one of the compiler's"
            if any(step.has_launch_bounds for step in self.facts.steps):  # launch bounds decide on registers
                option, name, values, default = "--ptxas-options=-dlcm={loads}", "loads", "[ca, cg]", "ca"
            else:
                option, name, values, default = "-maxrregcount={registers}", "registers", "[32, 64, 128, 255]", "255"
            lines = [f"  {name}: {values}  # {why}", *words, f'compile_options: {{cuda: ["{option}"]}}']
            return ["parameters:", *lines, f"default: {{{name}: {default}}}"]
        if not knobs:
            ask = "which numbers may vary? give each a name in the source, such as #define TILE 4, and list it here"
            return [f"parameters:{asked(ask)}", *words]
        lines = [
            f"  {word(name)}: [{', '.join(map(_value, knob.values))}]{asked(knob.question) or remark(knob.remark)}"
            for name, knob in knobs.items()
        ]
        default = ", ".join(f"{word(name)}: {_value(knob.default)}" for name, knob in knobs.items())
        return ["parameters:", *lines, *words, f"default: {{{default}}}"]

    def _words(self) -> list[str]:
        """Comments about the numbers that are no parameters, and about macros whose values are words."""
        why = "a macro whose value is a word: add others"
        fixed = [
            f"  # {name}: [{self.facts.numbers[name]}]    # no knob: {of}" for name, of in self.facts.reasons.items()
        ]
        why_not = "no knob: the kernel's arguments depend on it"
        fixed += [f"  # {name}: [false]    # {why_not}" for name in self.facts.flags_of_parameters]
        return [*fixed, *(f"  # {name}: [{word}]    # {why}" for name, word in self.facts.words.items())]

    def _restrictions(self) -> list[str]:
        if not (found := self.told.restrictions()):
            return []
        return ["restrictions:", *(f"  - {{that: {word(each)}, because: {why}}}" for each, why in found.items())]

    def _launch(self) -> list[str]:
        facts = self.facts
        if not facts.has_grid:
            return []
        return [
            f"grid: {self._grid(0, facts.block)}",
            f"block: [{', '.join(facts.block)}]{asked(facts.asks_block(facts.prototype))}",
            *self._shared_memory(facts.prototype),
        ]

    def _shared_memory(self, step: Prototype) -> list[str]:
        """The line `shared_memory`, in bytes, if a step may use dynamic shared memory."""
        arrays = self.facts.dynamic_arrays(step)
        if not arrays:
            return []
        if told := self.told.shared():
            return [f"shared_memory: {told}"]
        each = [str(size)] if (size := max(arrays.values())) > 1 else []
        (array, *others) = arrays
        if not others and (elements := self.told.local(array, step)):
            whole = elements if re.fullmatch(r"\w+", elements) or not each else f"({elements})"
            return [f"shared_memory: {' * '.join([*each, whole])}"]
        threads = (f"({e})" if re.search(r"[-+/%]", e) else e for e in self.facts.block_of(step))
        ask = f"how many bytes does a block need? {' and '.join(arrays)} is extern __shared__ in the source"
        return [f"shared_memory: {' * '.join([*each, *threads])}{asked(ask)}"]

    def _grid(self, step: int, block: list[str]) -> str:
        """The grid of a step, with a question unless the source determines it."""
        inferred = self.told.grid(step)
        used = set(re.findall(r"\w+", " ".join(each or "" for each in inferred)))
        written = [p for p in self.shapes.arrays if self.facts.role(p)[0] != "in"]
        guess = self.shapes.guess if len(self.extents) <= MOST_GUESSED else self.extents[: len(block)]
        if self.facts.size_macros and written:
            guess = self.shapes.shape(written[0].name)
        left = [size for size in reversed(guess) if size not in used]
        blocks = list[str]()
        for axis, each in enumerate(inferred):
            is_row = self.facts.grids.is_row(step, axis)
            size = left.pop(-1 if is_row else 0) if each is None and left else "1"
            each_of = axis < len(block) and size != "1" and not is_row
            tile = self.facts.grids.tile(step, axis, block) if each_of else ""
            blocks.append(each or (f"ceil_div({size}, {tile or block[axis]})" if each_of else size))
        if not blocks:  # a called function may read them
            reads = (
                re.search(r"\b(blockIdx|get_group_id|get_global_id)\b", self.facts.text) and len(self.facts.steps) == 1
            )
            guessed = [f"ceil_div({size}, {threads})" for size, threads in zip(left, block, strict=False)]
            blocks = (guessed if reads else []) or ["1"]
        is_free = self.told.has_any_grid(step)
        is_told = bool(inferred) and None not in inferred
        over = "any number works with a grid-stride loop"
        if is_told:
            return f"[{', '.join(blocks)}]{f'  # {over}' * is_free}"
        return f"[{', '.join(blocks)}]{asked('how many blocks in x, y, z?' + f' ({over})' * is_free)}"

    def _steps(self) -> list[str]:
        """The lines of `steps`, in the order of --entry."""
        questions = [each for each in (self._repeats.question, self._of_names()) if each]
        lines = [f"steps:{asked('; '.join(questions)) or self._repeats.remark}"]
        for position in range(len(self.facts.steps)):
            lines += [f"  {line}" for line in self._step(position)]
        return lines

    def _of_names(self) -> str:
        """A question about arrays that steps may call by two names, if host code does not tell."""
        if self.facts.launches:
            return ""
        roles = [self.facts.roles_in(step) for step in self.facts.steps]
        for at, earlier in enumerate(roles):
            rest = [(name, role) for other in roles[at + 1 :] for name, role in other.items()]
            written = [n for n, role in earlier.items() if role != "in" and n not in dict(rest)]
            read = [n for n, role in rest if role != "out" and not any(n in of for of in roles[: at + 1])]
            if written and read:
                first = self.facts.steps[at].name
                ask = f"is {read[0]} the {written[0]} of {first}? then give both one name"
                return f"no host code tells which arrays are passed: {ask}"
        return ""

    def _step(self, position: int) -> list[str]:
        """The lines of a step."""
        step = self.facts.steps[position]
        taken = ", ".join(word(name_of(parameter)) for parameter in step.parameters or ())
        block = self.facts.block_of(step)
        lines = [f"- kernel: {word(self.facts.templates.entry(step))}{self._classes(step)}"]
        ask = "the source does not show them: which?" if step.parameters is None else ""
        lines.append(f"  arguments: [{taken}]{asked(ask)}")
        if self.facts.has_grid:
            lines.append(f"  grid: {self._grid(position, block)}")
            lines.append(f"  block: [{', '.join(block)}]{asked(self.facts.asks_block(step))}")
            lines += [f"  {line}" for line in self._shared_memory(step)]
        return lines


def _usual(name: str) -> str:
    """A typical value of an option, guessed from its name: a small one for eps and probabilities, else 1."""
    return "0.00001" if name.startswith("eps") else "0.5" if name in ("p", "prob", "rate", "dropout") else "1.0"


def _option(number: str, is_whole: bool) -> str:
    """A number of host code as the value of an option; empty if it is not a number of the option's type."""
    if not number or (is_whole and not number.lstrip("+-").isdecimal()):
        return ""
    text = str(int(number)) if is_whole else repr(float(number))
    return text if "." in text else text.replace("e", ".0e")  # which YAML takes for a number


def _value(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
