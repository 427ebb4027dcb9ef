"""Tells the arrays of a kernel in a Python file, and whether it reads or writes each, from its loads and stores."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from tuner.drafting.python.syntax import last_word, names_in

_READS = ("load", "load_tensor_descriptor")
_WRITES = ("store", "store_tensor_descriptor")
# Functions whose result is an address if an argument is.
_KEEPING = ("to", "where", "sum", "minimum", "maximum", "multiple_of", "max_contiguous", "broadcast_to", "expand_dims")
_BLOCKS, _BLOCK = ("make_block_ptr", "make_tensor_descriptor"), ("base", "shape", "strides")  # their first arguments
_MAKERS = ("make_block_ptr", "make_tensor_descriptor", "advance", "cast", "multiple_of", "max_contiguous")


class Pointers:
    """The roles of the parameters of a kernel that are arrays; other functions may read and write them, too."""

    def __init__(self, function: ast.FunctionDef, parameters: Collection[str]) -> None:
        self._parameters = parameters
        self._assigned: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._assigned.setdefault(name, []).append(value)
                case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                    for target, value in zip(targets, values, strict=False):
                        if isinstance(target, ast.Name):
                            self._assigned.setdefault(target.id, []).append(value)
                case ast.AugAssign(target=ast.Name(id=name), op=how, value=value):
                    # The address that `p += stride` gives begins where `p` does, not at `stride`.
                    self._assigned.setdefault(name, []).append(ast.BinOp(ast.Name(name, ast.Load()), how, value))
        self.read, self.written, self.passed, self.accumulated = set[str](), set[str](), set[str](), set[str]()
        self.indices = set[str]()  # what they hold is a part of addresses
        self.limits = set[str]()  # indices are compared with what they hold, or loops end at it
        self.bits = set[str]()  # bits of what they hold are shifted
        self.addressing = set[str]()  # all names that addresses read
        self.factors: dict[str, str] = {}  # those by which indices are multiplied, as strides are: of which array
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                self._call(node)
        for node in ast.walk(function):
            match node:
                case ast.Compare(left=left, comparators=others):
                    sides = [left, *others]
                    is_of_index = any(map(self._is_of_index, sides))
                    self.limits |= {a for side in sides if is_of_index for a in self._elements(side)}
                case ast.BinOp(op=ast.RShift() | ast.LShift(), left=left):
                    parts = [left.left, left.right] if isinstance(left, ast.BinOp) else [left]
                    self.bits |= {a for each in parts for a in self._elements(each)}
                case ast.Call(func=func, args=args) if last_word(func) == "range":
                    self.limits |= {a for each in args for a in self._elements(each)}

    @property
    def all(self) -> set[str]:
        """The parameters that are certainly arrays."""
        return self.read | self.written

    def role(self, name: str) -> str:
        """The role of an array."""
        if name not in self.written:
            return "in"
        return "inout" if name in self.read else "out"

    def _call(self, call: ast.Call) -> None:
        name = last_word(call.func)
        first = call.args[0] if call.args else None
        if isinstance(call.func, ast.Attribute) and not isinstance(call.func.value, ast.Name):
            first = call.func.value if first is None else first
        if isinstance(call.func, ast.Attribute) and name in ("load", "store") and self._is_descriptor(call.func.value):
            first = call.func.value
        found = self._begins(first) if first is not None else set[str]()
        if name in (*_READS, *_WRITES) and first is not None:
            self.indices |= self._loaded(first)
        if name in _READS:
            self.read |= found
        elif name in _WRITES:
            self.written |= found
        elif name.startswith("atomic_"):
            self.read |= found
            self.written |= found
            self.accumulated |= found
        elif name in _BLOCKS:
            self._block(call)
        elif name not in _MAKERS and isinstance(call.func, ast.Name):
            for each in call.args:
                self.passed |= self._begins(each)

    def _block(self, call: ast.Call) -> None:
        """What a pointer to a block, or a descriptor, is made of."""
        given: dict[str | None, ast.expr] = dict(zip(_BLOCK, call.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords}
        if (base := given.get("base")) is None:
            return
        self.indices |= self._loaded(base)
        strides = names_in(*(given[name] for name in ("strides",) if name in given))
        self.addressing |= strides | names_in(*(given[name] for name in ("shape",) if name in given))
        for array in sorted(self._begins(base)):
            self.factors |= {name: array for name in strides if name not in self.factors}

    def _loaded(self, address: ast.expr) -> set[str]:
        """The parameters from which numbers in an address are loaded. What other functions make of numbers, as argmax
        does, is no part of an address by itself."""
        found, known, queue = set[str](), set[str](), list[ast.AST]([address])
        arrays = sorted(self._begins(address))
        while queue:
            match node := queue.pop():
                case ast.Name(id=name) if name not in known:
                    known.add(name)
                    queue += self._assigned.get(name, [])
                case ast.Call(func=ast.Attribute(attr=name, value=value), args=args) if name in _KEEPING:
                    queue += [value, *args]
                case ast.Call(func=ast.Attribute(attr="load") | ast.Name(id="load"), args=[first, *_]):
                    found |= self._begins(first)
                    queue.append(first)
                case ast.BinOp(op=ast.Mult(), left=left, right=right):
                    for each in (left, right):
                        if isinstance(each, ast.Name) and arrays:
                            self.factors.setdefault(each.id, arrays[0])
                    queue += [left, right]
                case ast.BinOp() | ast.UnaryOp() | ast.IfExp() | ast.Subscript():
                    queue += ast.iter_child_nodes(node)
        self.addressing |= known
        return found

    def _is_of_index(self, node: ast.expr) -> bool:
        """Whether an expression is an index: addresses read its name, or it has a range or the number of a program."""
        calls = {last_word(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
        return bool(calls & {"arange", "program_id"}) or bool(names_in(node) & self.addressing & self._assigned.keys())

    def _elements(self, node: ast.expr) -> set[str]:
        """The parameters of which an expression has elements as they are, also by sums and names."""
        found, known, queue = set[str](), set[str](), list[ast.AST]([node])
        while queue:
            match each := queue.pop():
                case ast.Name(id=name) if name not in known:
                    known.add(name)
                    queue += self._assigned.get(name, [])
                case ast.Call(func=ast.Attribute(attr=name, value=value)) if name == "to":
                    queue.append(value)
                case ast.Call(func=ast.Attribute(attr="load"), args=[first, *_]):
                    found |= self._begins(first)
                case ast.BinOp(op=ast.Add() | ast.Sub()) | ast.Subscript():
                    queue += ast.iter_child_nodes(each)
        return found

    def _is_descriptor(self, node: ast.expr) -> bool:
        """Whether a call is a method of a descriptor of a tensor, not a function of a module."""
        return isinstance(node, ast.Name) and (node.id in self._assigned or node.id in self._parameters)

    def _begins(self, node: ast.expr) -> set[str]:
        """The parameters at which an address may begin."""
        return {*self._bases(node, set())} - {""}

    def _bases(self, node: ast.expr, known: set[str]) -> Iterator[str]:
        """The parameters at which an address may begin, and an empty text for a name of `known`, which was followed
        before: `p = p + n` is common."""
        match node:
            case ast.Name(id=name):
                if name in self._parameters and name not in self._assigned:
                    yield name
                    return
                if name in self._parameters:
                    yield name
                if name in known:
                    yield ""
                elif name in self._assigned:
                    known.add(name)
                    for value in self._assigned[name]:
                        yield from self._bases(value, known)
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                found = [*self._bases(left, known)]
                yield from found or self._bases(right, known)
            case ast.Call(func=ast.Attribute(attr="to", value=value)):
                yield from self._bases(value, known)
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in _MAKERS:
                given = [k.value for k in node.keywords if k.arg in ("base", "ptr", "input")]
                for value in (*node.args[:1], *given):
                    yield from self._bases(value, known)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._bases(body, known)
                yield from self._bases(orelse, known)
