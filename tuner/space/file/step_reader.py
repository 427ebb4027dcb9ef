"""Reads the steps of a space file: one with `kernel:`, several with `steps:`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from tuner.errors import SpaceError
from tuner.languages import LANGUAGES
from tuner.quoting import shown
from tuner.space import expressions
from tuner.space.computation import Operation
from tuner.space.expressions import Expression, evaluator
from tuner.space.file.loop_reader import LoopReader
from tuner.space.file.schema import DivisorsModel, GeometryModel, SpaceModel, StepModel
from tuner.space.file.source_reader import SourceReader
from tuner.space.file.yamlfile import Document, Where
from tuner.space.model import Restriction
from tuner.space.step import Extents, Step

OF_A_STEP = ("source", *GeometryModel.model_fields)  # keys of each step if there are several
CLUSTERS_FROM = 9.0  # least compute capability
MOST_CLUSTER = 16  # blocks, on GPUs that allow more than the portable 8
WARP, USUAL_WARPS = 32, 4  # threads of a warp; warps of a block in Triton, if the space does not say how many
_DECIDED = {  # keys of a step that a kernel in a Python file does not have, and what to write instead
    "block": "remove this key; `num_warps` among the parameters is its number of warps",
    "shared_memory": "remove this key",
    "cluster": "remove this key; `num_ctas` among the parameters is the number of blocks in a cluster",
    "programmatic": "remove this key",
}


class StepReader:
    """Reads the steps.

    check_names: raises SpaceError if an expression, with its key, uses a name that is unknown and no given loop
        variable.
    error: a SpaceError for a key and a message.
    """

    def __init__(
        self,
        document: Document,
        model: SpaceModel,
        sources: SourceReader,
        loops: LoopReader,
        check_names: Callable[[Where, Expression, frozenset[str]], None],
        error: Callable[[Where, str], SpaceError],
    ) -> None:
        self.document, self.model, self.sources, self.loops = document, model, sources, loops
        self._check_names, self._error = check_names, error

    def check_form(self) -> None:
        """Raise SpaceError unless there is `kernel` or `steps`, and keys of steps are in the steps."""
        model, data = self.model, self.document.data
        if model.kernel is None and model.steps is None:
            raise self.document.error(("kernel",), "this key is missing; add it, or `steps:` of several kernels")
        if model.steps is None:
            return
        for key in ("kernel", *(key for key in OF_A_STEP if key != "source")):
            if key in data:
                raise self.document.error((key,), "not allowed beside `steps:`; write it in each step")
        self.loops.check_form()

    @property
    def _models(self) -> Iterator[tuple[Where, GeometryModel, str, str | None]]:
        """Key, geometry, kernel and source of each step."""
        model = self.model
        if model.steps is None:
            yield (), model, str(model.kernel), model.source
            return
        for written in self.loops.written:
            yield written.where, written.model, str(written.model.kernel), written.model.source

    @property
    def kernels(self) -> list[tuple[Where, str]]:
        """The names of the kernels as in the file, with their keys."""
        return [((*where, "kernel"), kernel) for where, _, kernel, _ in self._models]

    def first_source(self) -> Path:
        """The kernel file of the first step, which determines the languages."""
        where, _, _, own_source = next(self._models)
        return self._source(where, own_source)

    def steps(self, operation: Operation, languages: tuple[str, ...], include: tuple[Path, ...]) -> tuple[Step, ...]:
        """The steps. Raises SpaceError for the first error."""
        self._operation, self._languages = operation, languages
        steps: list[Step] = []
        for number, (where, model, kernel, own_source) in enumerate(self._models):
            loop_names = self.loops.written[number].names if where else frozenset[str]()
            source = self._source(where, own_source)
            self.sources.check_languages(source, languages, where)
            is_python = self.sources.python_language(source) is not None
            if is_python:
                self._check_decided(where, model)
            else:
                self.sources.check_kernel(source, include, kernel, where)
            step = Step(
                kernel=kernel,
                source=source,
                arguments=self._arguments(where, model),
                grid=self._grid(where, model, loop_names),
                block=self._triple((*where, "block"), model.block),
                shared_memory=self._single((*where, "shared_memory"), model.shared_memory),
                cluster=self._cluster(where, model),
                cooperative=self._cooperative(where, model),
                programmatic=self._programmatic(where, model, is_first=not steps),
                when=self._when(where, model, loop_names),
            )
            steps.append(self._of_compiler(step) if is_python else step)
        self._check_used(steps)
        return tuple(steps)

    def _check_decided(self, where: Where, model: GeometryModel) -> None:
        for key, instead in _DECIDED.items():
            if key in model.model_fields_set:
                raise self.document.error((*where, key), f"the compiler decides it; {instead}")

    def _of_compiler(self, step: Step) -> Step:
        """A step whose kernel is a function of a Python file, with the threads and clusters that its compiler makes."""
        chosen, one = {*self.model.parameters, *self.model.derived}, expressions.parse(1)
        if "num_ctas" in chosen:
            grid = (expressions.parse(f"({step.grid[0].text}) * num_ctas"), *step.grid[1:])
            step = replace(step, grid=grid, cluster=(expressions.parse("num_ctas"), one, one))
        threads = expressions.parse(f"{WARP} * num_warps" if "num_warps" in chosen else WARP * USUAL_WARPS)
        return replace(step, block=(threads, one, one))

    def _source(self, where: Where, own: str | None) -> Path:
        return self.sources.source() if own is None or not where else self.sources.named(own, (*where, "source"))

    def _when(self, where: Where, model: GeometryModel, loop_names: frozenset[str]) -> Expression | None:
        when: Expression | None = model.when if isinstance(model, StepModel) else None
        if when is not None:
            self._check_names((*where, "when"), when, loop_names)
        return when

    def _arguments(self, where: Where, model: GeometryModel) -> tuple[str, ...]:
        given = model.arguments if isinstance(model, StepModel) else None
        known = {argument.name: argument for argument in self._operation.arguments}
        if given is None:
            return self._operation.taken
        for position, name in enumerate(given):
            place = (*where, "arguments", position)
            if name not in known:
                raise self.document.error(place, evaluator.unknown_name(name, known))
            if name in given[:position]:
                raise self.document.error(place, f"{name} appears twice; keep one")
            kind = known[name].kind
            if kind is not None and not any(map(kind.may_be_parameter, self._languages)):
                raise self.document.error(
                    place,
                    f"{name} is {kind.name}, which is not a kernel parameter in {self._languages[0]}; remove it here",
                )
        return tuple(given)

    def _check_used(self, steps: list[Step]) -> None:
        """Raise SpaceError for an argument that no step takes."""
        if self.model.steps is None:
            return
        taken = {name for step in steps for name in step.arguments}
        taken |= {name for argument in self._operation.arguments for name in argument.reaches}
        for argument in self._operation.arguments:
            is_parameter = argument.kind is None or any(map(argument.kind.may_be_parameter, self._languages))
            if argument.name not in taken and is_parameter:
                raise self.document.error(
                    ("steps",), f"no step takes the argument {argument.name}; name it in one, or remove it"
                )

    def _single(self, where: Where, expression: Expression) -> Expression:
        self._check_names(where, expression, frozenset())
        self._check_constant(where, expression, 0)
        return expression

    def _check_constant(self, where: Where, expression: Expression, least: int) -> None:
        """Raise SpaceError for a number below `least`: no configuration could be launched."""
        if not expression.names and (value := expression.integer({})) < least:
            raise self.document.error(where, f"`{shown(expression.text)}` is {value}; at least {least} is needed")

    def _triple(self, where: Where, extents: list[Expression], loop_names: frozenset[str] = frozenset()) -> Extents:
        """The extents in x, y and z; a missing one is 1."""
        for position, expression in enumerate(extents):
            self._check_names((*where, position), expression, loop_names)
            self._check_constant((*where, position), expression, 1)
        x, y, z = (*extents, *[expressions.parse(1)] * (3 - len(extents)))
        return x, y, z

    def _cluster(self, where: Where, model: GeometryModel) -> Extents | None:
        if model.cluster is None:
            return None
        self._check_cuda((*where, "cluster"), "clusters")
        return self._triple((*where, "cluster"), model.cluster)

    def _cooperative(self, where: Where, model: GeometryModel) -> bool:
        if model.cooperative:
            self._check_cuda((*where, "cooperative"), "cooperative launches")
        return model.cooperative

    def _programmatic(self, where: Where, model: GeometryModel, is_first: bool) -> bool:
        if not isinstance(model, StepModel) or not model.programmatic:
            return False
        if is_first:
            raise self.document.error((*where, "programmatic"), "the first step has none before it; remove this key")
        if model.cooperative:
            message = (
                "not allowed beside `cooperative`, whose blocks may wait for places that another step has; keep one"
            )
            raise self.document.error((*where, "programmatic"), message)
        self._check_cuda((*where, "programmatic"), "programmatic launches")
        return True

    def _check_cuda(self, where: Where, feature: str) -> None:
        able = [name for name, language in LANGUAGES.items() if language.has_clusters]
        if set(self._languages) - set(able):
            raise self.document.error(
                where, f"{feature} are for {' and '.join(able)} only; write `languages: [{able[0]}]`"
            )

    def _grid(self, where: Where, model: GeometryModel, loop_names: frozenset[str]) -> Extents:
        if model.grid is not None and model.grid_divisors is not None:
            raise self.document.error((*where, "grid"), "both `grid` and `grid_divisors`; keep one")
        if model.grid is not None:
            return self._triple((*where, "grid"), model.grid, loop_names)
        divisors = model.grid_divisors or DivisorsModel()
        if (
            not self._operation.extent
            and model.grid_divisors is None
            and any(LANGUAGES[n].has_grid for n in self._languages)
        ):
            raise self.document.error(
                (*where, "grid"),
                "the number of blocks is missing; write `grid:`, or `grid_divisors:` and the `extent:` of the result",
            )
        for axis in "xyz"[len(self._operation.extent) :]:
            if getattr(divisors, axis):
                raise self._error(
                    (*where, "grid_divisors", axis),
                    f"the result has no extent in {axis}; write one in `extent:`, or `grid:` instead",
                )
        blocks: list[Expression] = []
        for axis, extent in zip("xyz", self._operation.extent, strict=False):
            factors: list[Expression] = getattr(divisors, axis)
            for position, factor in enumerate(factors):
                self._check_names((*where, "grid_divisors", axis, position), factor, loop_names)
            product = " * ".join(f"({factor.text})" for factor in factors) or "1"
            blocks.append(expressions.parse(f"ceil_div({extent.text}, {product})"))
        return self._triple((*where, "grid"), blocks, loop_names)


def restrictions(steps: tuple[Step, ...], operation: Operation) -> Iterator[Restriction]:
    """The restrictions that a device imposes on these steps and arguments."""
    for that, because in dict.fromkeys(_conditions(steps, operation)):
        condition = expressions.parse(that)
        if not condition.names & operation.loop_names:  # a launch with too large a grid fails
            yield Restriction(condition, because)


def _conditions(steps: tuple[Step, ...], operation: Operation) -> Iterator[tuple[str, str]]:
    """Conditions on configurations as expressions, with their reasons."""
    for step in steps:
        skipped = "" if step.when is None else f"not ({step.when.text}) or "
        yield from ((f"{skipped}{that}", because) for that, because in _step_conditions(step))
    for argument in operation.arguments:
        if argument.kind is not None:
            yield from argument.kind.restrictions(argument, operation)


def _step_conditions(step: Step) -> Iterator[tuple[str, str]]:
    threads = " * ".join(f"({e.text})" for e in step.block if e.text != "1")
    if threads:
        yield f"{threads} <= max_threads", "the device's threads per block"
    for name, unit, extents in (("block", "threads per block", step.block), ("grid", "blocks", step.grid)):
        for axis, extent in zip("xyz", extents, strict=True):
            if extent.text != "1":
                yield f"({extent.text}) <= max_{name}_{axis}", f"the device's {unit} in {axis}"
    shared_memory = step.shared_memory.text
    if shared_memory != "0":
        yield f"({shared_memory}) <= max_shared_memory", "the device's shared memory per block"
        without = [entry.name for entry in LANGUAGES.values() if not entry.dynamic_shared_memory]
        others = " and ".join(f"language != {name!r}" for name in without)
        yield f"({shared_memory}) == 0 or {others}", f"no dynamic shared memory in {' and '.join(without)}"
    if step.cluster is not None:
        yield from _cluster_conditions(step, step.cluster)


def _cluster_conditions(step: Step, cluster: Extents) -> Iterator[tuple[str, str]]:
    blocks = " * ".join(f"({extent.text})" for extent in cluster)
    yield f"{blocks} == 1 or compute_capability >= {CLUSTERS_FROM}", "clusters begin with compute capability 9.0"
    yield f"{blocks} <= {MOST_CLUSTER}", f"a cluster has at most {MOST_CLUSTER} blocks"
    for axis, extent, grid in zip("xyz", cluster, step.grid, strict=True):
        if extent.text != "1":
            yield f"({grid.text}) % ({extent.text}) == 0", f"the grid is whole clusters in {axis}"
