"""`tuner.autotune`: stands in the place of `@triton.autotune`, and looks up what was tuned, or tunes it if asked to."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuner import paths
from tuner.errors import ArgumentError, RequestError
from tuner.families import family
from tuner.families.dispatcher import Dispatcher
from tuner.families.first_call import FirstCall
from tuner.families.loader import Loader, dispatch
from tuner.quoting import quoted, shown
from tuner.space import operation
from tuner.torch.signature import Signature, flattened

MOST_CHECKED = 4096  # combinations of shapes and numbers
_NAMESPACE = "tuner_autotune"  # of the operators of torch


def autotune(
    space: str | Path,
    *,
    key: Sequence[str] = (),
    results: str | Path | None = None,
    binaries: str | Path | None = None,
    tune: str | None = None,
    budget: str = "1m",
) -> Callable[[Any], TunedKernel]:
    """A decorator for a function of `@triton.jit`, which is called as before: `kernel[grid](x, n)`.

    A call runs the configuration that `tuner.dispatch` chooses for the arrays: the best that was tuned at their sizes,
    or the one that is predicted to be. It tunes nothing, except in a `tuner.warm_up` block, so all processes that share
    a store choose the same. It works in `torch.compile(fullgraph=True)`.

    A call passes the arguments of the function, without the parameters of the space. What it passes besides arrays and
    options is checked once for each set of shapes: numbers, constants and grid must be those of the space file. Tensors
    of any contiguous shape may stand for a vector of the space file.

    Args:
        space: The space file of the kernel, relative to the file of the function, or a kernel's name.
        key: As for `@triton.autotune`. Each must be a size or an option of the space: these decide by themselves.
        results: A folder of records, as for `tuner.load`.
        binaries: A folder of exported builds, as for `tuner.dispatch`.
        tune: "first call": the first call of a problem without a record tunes it in another process, and waits for
            that; a warning says so. The arrays of the call stay as they are. Default: no call tunes.
        budget: The time for a tuning by `tune` before its final round: "90s", "2m", "1h".

    Raises RequestError if there is no such kernel, or if the space is not one of this function.

    Example::

        @tuner.autotune("softmax.yaml", key=["columns"])
        @triton.jit
        def softmax(y, x, rows, columns, WIDTH: tl.constexpr):
            ...

        softmax[(rows,)](y, x, rows, columns, WIDTH=1024)
    """

    def decorated(function: Any) -> TunedKernel:
        kernel = _found(space, function)
        places = None if results is None else Path(results), None if binaries is None else Path(binaries)
        handle: Dispatcher
        if tune is None:
            handle = dispatch(kernel, library=False, results=results, binaries=binaries)
        else:
            first_call = FirstCall(budget, _is_capturing)
            handle = Dispatcher(Loader(family.find(kernel), None, False, {}, {}, *places, first_call=first_call))
        return TunedKernel(function, kernel, key, handle, paths.digest(kernel, repr((*places, tune, budget)))[:12])

    if tune not in (None, "first call"):
        raise RequestError(f'autotune(tune={quoted(tune)}): write "first call", or leave it out')

    return decorated


def _found(space: str | Path, function: Any) -> str:
    """The path or the name of a space."""
    if not isinstance(space, str | Path):
        raise RequestError(f"autotune({quoted(space)}): write the path of a space file, or a kernel's name")
    code = getattr(getattr(function, "fn", None), "__code__", None)
    if Path(space).suffix != ".yaml" or code is None:
        return str(space)
    return str(Path(code.co_filename).parent / space)


def _is_capturing() -> bool:
    """Whether torch records launches of this thread in a CUDA graph."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


class TunedKernel:
    """A kernel in Triton whose configuration is looked up. `kernel[grid](...)` launches it."""

    def __init__(
        self,
        function: Any,
        kernel: str,
        key: Sequence[str],
        handle: Dispatcher,
        code: str,
    ) -> None:
        """See `autotune`. Two kernels with the same `code` have the same handle."""
        self.fn, self._name = function, str(getattr(function, "__name__", function))
        names = getattr(function, "arg_names", None)
        if not isinstance(names, list | tuple):
            raise RequestError(
                f"autotune: {quoted(self._name)} is no function of @triton.jit; write that below autotune"
            )
        self._names = tuple(map(str, names))
        self._handle = handle
        space, op = self._handle.family.spaces[0], self._handle.family.operation
        if space.python_language is None or space.steps[0].kernel != self._name:
            written = " and ".join(step.kernel for step in space.steps)
            raise RequestError(f"autotune({shown(kernel)}): its kernel is {written}, not {self._name}")
        known = (*op.sizes, *op.options)
        if unknown := [name for name in key if name not in known]:
            raise RequestError(
                f"autotune(key=[{quoted(unknown[0])}]): no size or option of {space.name}; there are {', '.join(known)}"
            )
        signature = Signature.of(op)
        self._flat = tuple(len(a.shape or ()) == 1 for a in op.arrays)
        self._arrays, self._defaults = tuple(a.name for a in op.arrays), dict(op.options)
        self._sizes, self._parameters = signature.out_sizes, frozenset(space.parameters)
        self._named = {*self._sizes, *self._defaults}
        self._others = tuple(n for n in self._names if n not in self._arrays and n not in self._defaults)
        self._by_sizes: dict[tuple[Any, ...], Callable[..., None]] = {(): self._handle.__call__}
        self._checked: set[tuple[Any, ...]] = set()
        self._torch = sys.modules.get("torch")
        self._operator: Any = self._registered(code) if self._torch is not None else None

    def _registered(self, code: str) -> Any:
        """The operator that a compiled graph calls. Two decorators of the same kernel share it."""
        from tuner.torch.operators import registered

        name, namespace = f"{self._name}_{code}", getattr(self._torch, "ops")  # noqa: B009  # a module without stubs
        existing = getattr(getattr(namespace, _NAMESPACE), name, None)
        return existing or registered(f"{_NAMESPACE}::{name}", self._handle, self._flat)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return functools.partial(self._run, grid)

    def __call__(self, *arguments: Any, **named: Any) -> None:
        raise RequestError(f"{self._name}: write its grid, as in {self._name}[grid](...)")

    def _run(self, grid: Any, *arguments: Any, **named: Any) -> None:
        given = {**dict(zip(self._names, arguments)), **named}  # noqa: B905  # torch.compile knows no `strict`
        arrays = [given[name] for name in self._arrays]
        if self._torch is not None and self._torch.compiler.is_compiling():
            self._operator.out(*arrays, **{name: given[name] for name in self._named if name in given})
            return
        if self._torch is not None:  # a kernel sees the elements of a tensor, not its axes
            arrays = flattened(arrays, self._flat)
        call = self._by_sizes[()]
        if self._sizes:
            call = self._of_sizes(tuple(given[name] for name in self._sizes))
        others = tuple([given.get(name) for name in self._others])
        case = (others, *(array.shape for array in arrays))
        if case not in self._checked:
            self._check(given, arrays, grid)
            if len(self._checked) >= MOST_CHECKED:
                self._checked.clear()
            self._checked.add(case)
        options = {n: given[n] for n, usual in self._defaults.items() if n in given and given[n] != usual}
        call(*arrays, **options)

    def _of_sizes(self, sizes: tuple[int, ...]) -> Callable[..., None]:
        """The call for these sizes, which no shape of an array determines."""
        if sizes not in self._by_sizes:
            if len(self._by_sizes) >= MOST_CHECKED:
                self._by_sizes = {(): self._handle.__call__}
            self._by_sizes[sizes] = self._handle.with_sizes(dict(zip(self._sizes, sizes, strict=True))).__call__
        return self._by_sizes[sizes]

    def _check(self, given: dict[str, Any], arrays: list[Any], grid: Any) -> None:
        """Raise ArgumentError unless a call means what the space file says."""
        handle = self._handle
        if self._sizes:
            handle = handle.with_sizes({name: given[name] for name in self._sizes})
        kernel = handle.kernel(*arrays)
        space, scope = kernel.space, kernel.scope
        assert space is not None
        op, config = space.operation, kernel.config
        names = space.names(config, scope)
        numbers = operation.scalars(op, replace(op.own(scope), config=config))
        passed = {argument.name: number for argument, number in zip(op.by_value, numbers, strict=True)}
        for name, value in given.items():
            if name in self._parameters:
                raise ArgumentError(f"{name}: tuner chooses it; remove it from the call")
            if name in self._arrays or name in self._defaults:
                continue
            known = {**passed, **{each: names[each] for each in (*space.derived, *op.sizes)}}
            if name in known and value != known[name]:
                raise ArgumentError(f"{name} = {quoted(value)}: {space.origin} has {known[name]} for these arrays")
            if name not in known and not self._is_default(name, value):
                raise ArgumentError(f"{name}: {space.origin} has no argument, size or derived value of this name")
        self._check_grid(grid, {**{n: names[n] for n in (*space.parameters, *space.derived)}, **given}, names)

    def _is_default(self, name: str, value: Any) -> bool:
        """Whether a value is that which the function has without it."""
        parameters = getattr(self.fn, "params", ())
        return any(p.name == name and p.default is value for p in parameters) or value is None

    def _check_grid(self, grid: Any, meta: dict[str, Any], names: Any) -> None:
        space = self._handle.family.spaces[0]
        step = space.steps[0]
        blocks = list(step.blocks(names))
        if step.cluster is not None:
            blocks[0] //= step.cluster[0].integer(names)
        given = grid(meta) if callable(grid) else grid
        asked = [*given] if isinstance(given, Collection) else [given]
        if [*map(int, asked), *[1] * (3 - len(asked))] != blocks:
            raise ArgumentError(f"{self._name}: its grid is {tuple(asked)}, and {space.origin} says {tuple(blocks)}")
