"""Answers of expressions, computed on the device.

Each formula becomes one of our own kernels, in double precision. A matrix product is the vendor library's, of copies in
double precision: another implementation than the kernel under test. The host recomputes a random sample of the elements
that each kernel computes; if it disagrees, its answers are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tuner.devices.base import Device, RoutineCall
from tuner.errors import DeviceError, TunerError
from tuner.measure.answers import formulas
from tuner.measure.answers.formula_nodes import Input, NoFormula, Operands, Stored
from tuner.measure.answers.placing import Formula, Placed, Placer
from tuner.measure.answers.stored_nodes import Cumulated, Fold, Partial, Reduced, StoredProduct
from tuner.space.dtypes import DTYPES
from tuner.space.values.elements import ON_DEVICE_BYTES, Elements

if TYPE_CHECKING:
    from tuner.devices.base import Array, Buffer
    from tuner.measure.answers.formula_nodes import Node
    from tuner.space.dtypes import DType
    from tuner.space.scope import Scope
    from tuner.space.values.forms import ExpressionReference

EXPENSIVE = 1 << 27  # multiplications in matrix products that take a host longer than a GPU takes to load its library
_SAMPLES = 16  # elements that the host recomputes
_DOUBLE = DTYPES["float64"]
_MANY = 1 << 20  # threads that keep a GPU busy
_FEW_TERMS = 256  # that a thread combines at least
_FIRST = np.zeros(1, np.int64)


def answers(
    form: ExpressionReference, scope: Scope, contents: Mapping[str, Elements], placer: Placer
) -> tuple[dict[str, Elements], frozenset[str]] | None:
    """The answers of all outputs, and the names of the arrays that they depend on, as `reference.answers` returns them.

    None if the host must compute them: if arrays and work are small, if an expression does not have the required form,
    or if they do not fit on the device.
    """
    device = placer.device
    has_large = any(name in contents and contents[name].nbytes >= ON_DEVICE_BYTES for name in form.outputs)
    if not device.has_doubles or (device.on_processor and not has_large):
        return None
    results: dict[str, Elements] = {}
    read: set[str] = set()
    try:
        found = {name: formulas.formula(each.tree, name, scope, contents) for name, each in form.outputs.items()}
        nodes = dict.fromkeys(node for formula in found.values() for node in formula.all())
        is_expensive = sum(node.work for node in nodes if isinstance(node, StoredProduct)) >= EXPENSIVE or any(
            elements.nbytes >= ON_DEVICE_BYTES for elements in contents.values()
        )
        if not has_large and not is_expensive:
            return None
        for name, formula in found.items():
            results[name] = _placed(formula, contents[name], placer)
        read = {node.name for node in nodes if isinstance(node, Input)}
    except (NoFormula, TunerError, MemoryError):  # the host reports an error of the space file
        return None
    return results, frozenset(read)


def _placed(formula: Node, output: Elements, placer: Placer) -> Placed:
    """One answer. Raises DeviceError if the device has no matrix product, or computes other elements than the host."""
    dtype = output.element
    if not dtype.is_exact:
        return Placed(placer, output.shape, lambda memory: _Computation(placer).compute(formula, memory))
    return Placed(
        placer, output.shape, lambda memory: _Computation(placer).compute_whole(formula, memory, dtype), dtype
    )


class _Computation:
    """Computes an answer, and keeps in memory what that takes."""

    def __init__(self, placer: Placer) -> None:
        self._placer = placer
        self._memory: dict[Input | Stored, Buffer] = {}

    def compute(self, node: Node, memory: Buffer) -> None:
        """Fill `memory` with the elements of a node, and compare a sample with the host's. Raises DeviceError."""
        match node:
            case StoredProduct():
                self._multiply(node, memory)
            case Fold():
                self._fold(node, memory)
            case Cumulated():
                self._cumulate(node, memory)
            case _:
                self._evaluate(node, memory)

    def compute_whole(self, node: Node, memory: Buffer, dtype: DType) -> None:
        """Fill `memory` with the elements of a whole node, as integers of a type.

        Also raises DeviceError if one is out of the type's range: the host then says which.
        """
        if node.most is None or node.most > min(-dtype.low, dtype.high):
            least, greatest = (self._values(Reduced(kind, node, None, False), _FIRST)[0] for kind in ("min", "max"))
            if not dtype.low <= least <= greatest <= dtype.high:
                raise DeviceError(f"{self._placer.device.id}: out of the range of {dtype.name}")
        operands = Operands()
        text, sample = node.text("i", operands), _sample(node.size)
        expected = node.at(sample, self._values)
        self._placer.evaluate(self._formula(text, operands), memory, dtype)
        self._placer.compare(self._placer.doubles(memory, sample, dtype), expected, np.zeros(len(sample)))

    def _stored(self, node: Input | Stored) -> Buffer:
        """The memory of an array or a stored node, which is computed once."""
        if node not in self._memory:
            if isinstance(node, Input):
                self._memory[node] = self._placer.placed(node.placed)
            else:
                memory = self._placer.device.allocate(_DOUBLE.itemsize * node.size, guard=0)
                self.compute(node, memory)
                self._memory[node] = memory
        return self._memory[node]

    def _values(self, node: Node, index: Array) -> Array:
        """Elements of a stored node, for the host."""
        assert isinstance(node, Stored)
        return self._placer.doubles(self._stored(node), index.reshape(-1)).reshape(index.shape)

    def _formula(self, text: str, operands: Operands) -> Formula:
        return Formula(text, [(self._stored(array), array.dtype) for array in operands.arrays], operands.numbers)

    def _evaluate(self, node: Node, memory: Buffer) -> None:
        """Compute each element by a formula."""
        operands = Operands()
        text, sample = node.text("i", operands), _sample(node.size)
        for array in operands.arrays:
            if isinstance(array, StoredProduct) and array.size == node.size and array not in operands.elsewhere:
                self.compute(array, memory)  # a large product needs no other memory than the answer's
                self._memory[array] = memory
                break
        formula, expected = self._formula(text, operands), node.at(sample, self._values)
        self._placer.evaluate(formula, memory)
        self._memory = {array: held for array, held in self._memory.items() if held is not memory}
        self._placer.compare(self._placer.doubles(memory, sample), expected, np.abs(expected))

    def _fold(self, fold: Fold, memory: Buffer) -> None:
        """Combine terms: with few elements of many terms in several steps, because each thread combines some."""
        chunks = max(1, min(-(-fold.extent // _FEW_TERMS), _MANY // max(1, fold.size)))
        length = -(-fold.extent // chunks)
        chunks = -(-fold.extent // length)
        if chunks == 1:
            self._fold_chunks(fold, length, 1, memory)
            return
        partial = Partial(fold, chunks)
        self._memory[partial.stored] = parts = self._placer.device.allocate(
            _DOUBLE.itemsize * fold.size * chunks, guard=0
        )
        self._fold_chunks(fold, length, chunks, parts)
        self._fold(partial, memory)

    def _fold_chunks(self, fold: Fold, length: int, chunks: int, memory: Buffer) -> None:
        """Combine each `length` terms of an element; `chunks` results for each element are written."""
        operands = Operands()
        text = fold.term("o", "k", operands)
        step = 1 if self._placer.device.on_processor else chunks  # each core of a processor reads on in its part
        extents = chunks, length, step, fold.extent
        self._placer.fold(fold.kind, self._formula(text, operands), extents, memory)
        sample = _sample(fold.size * chunks)
        output, chunk = np.divmod(sample, chunks)
        number = chunk[:, None] * (length if step == 1 else 1) + np.arange(length) * step
        inside = number < fold.extent
        terms = fold.terms_at(np.broadcast_to(output[:, None], number.shape), np.where(inside, number, 0), self._values)
        with np.errstate(all="ignore"):
            if fold.kind == "sum":
                terms = np.where(inside, terms, 0.0)
                expected, scale = terms.sum(axis=1), np.abs(terms).sum(axis=1)
            else:
                terms = np.where(inside, terms, terms[:, :1])
                expected = terms.max(axis=1) if fold.kind == "max" else terms.min(axis=1)
                scale = np.abs(expected)
        self._placer.compare(self._placer.doubles(memory, sample), expected, scale)

    def _cumulate(self, node: Cumulated, memory: Buffer) -> None:
        """Running sums: the host adds up the chunks' sums, and a thread continues each chunk from there."""
        array, chunks = node.parts
        sums = np.empty(chunks.size)
        self._placer.device.read(self._stored(node.chunks).handle, sums)
        with np.errstate(all="ignore"):
            before = np.append(0.0, np.cumsum(sums, dtype=np.longdouble)[:-1]).astype(np.float64)
        operands = Operands()
        text = array.text("i", operands)
        starts = self._placer.device.upload(before)
        self._placer.cumulate(self._formula(text, operands), starts, node.CHUNK, memory)
        sample = _sample(node.size)
        chunk, last = np.divmod(sample, node.CHUNK)
        number = np.minimum(sample[:, None], chunk[:, None] * node.CHUNK + np.arange(node.CHUNK))
        terms = np.where(np.arange(node.CHUNK) <= last[:, None], array.at(number, self._values), 0.0)
        with np.errstate(all="ignore"):
            expected = before[chunk] + terms.sum(axis=1)
            scale = np.abs(before[chunk]) + np.abs(terms).sum(axis=1)
        self._placer.compare(self._placer.doubles(memory, sample), expected, scale)

    def _multiply(self, product: StoredProduct, memory: Buffer) -> None:
        """Compute a matrix product. Raises DeviceError if the host is faster."""
        device = self._placer.device
        has_library = type(device).library is not Device.library
        if device.on_processor and not has_library:
            raise DeviceError(f"{device.id}: a library on the host multiplies faster")
        a, b = map(self._as_doubles, product.parts)
        handles = {"A": a.handle, "B": b.handle, "C": memory.handle}
        rows, columns, inner = product.rows, product.columns, product.inner
        sizes = {"M": rows, "N": columns, "K": inner, "batch": product.batch, "alpha": 1.0, "beta": 0.0}
        call = device.library(RoutineCall("gemm", {**handles, **sizes}, dict.fromkeys("ABC", _DOUBLE.name)))
        if call is None:
            self._placer.multiply(a, b, (rows, columns, inner), memory)
        else:
            try:
                self._placer.run(call)
            except Exception as error:  # the library has its own exception types
                raise DeviceError(f"{device.id}: {call.name}: {error}") from None
        self._check_product(product, memory)

    def _as_doubles(self, node: Node) -> Buffer:
        """The elements of a factor as doubles, in row-major order."""
        if isinstance(node, Stored):
            return self._stored(node)
        memory = self._placer.device.allocate(_DOUBLE.itemsize * node.size, guard=0)
        self._evaluate(node, memory)
        return memory

    def _check_product(self, product: StoredProduct, memory: Buffer) -> None:
        """Raise DeviceError if sampled elements of a product differ from the host's by more than rounding."""
        sample = _sample(product.size)
        for number, value in zip(map(int, sample), self._placer.doubles(memory, sample), strict=True):
            left, right = product.factors(number, self._values)
            products = left * right
            scale = np.abs(products).sum()
            self._placer.compare(value, products.sum(), scale, tolerance=2 * product.inner * 2.0**-52)


def _sample(count: int) -> Array:
    """The numbers of some elements, the last one among them."""
    return np.append(np.random.default_rng().integers(0, count, _SAMPLES), count - 1)
