"""Imports run one way: each room of the package uses what lies below it, and nothing above."""

from __future__ import annotations

import ast
import functools
import graphlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers import ROOT

# Lowest first. A folder is a room; a module beside the folders is one by itself. Those on one line may use each other.
ORDER = [
    ("classes", "errors", "languages", "paths", "quoting", "version"),
    ("space",),
    ("catalog", "drafting"),
    ("children",),
    ("devices",),
    ("search",),
    ("measure",),
    ("prediction",),
    ("store",),
    ("launch",),
    ("families",),
    ("torch",),
    ("tuning",),
    ("session",),
    ("judging",),
    ("__init__",),
    ("exchange",),
    ("experiments",),
    ("report",),
    ("door",),
    ("cli",),
    ("__main__",),
]
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
MOST_MODULES_OUTSIDE, MOST_MODULES, MOST_LEVELS = 8, 25, 12
# Who alone imports each of these packages: folders and modules of tuner/.
IMPORTERS = {
    "IPython": ("session/bars.py",),
    "click": ("cli/",),
    "cuda": ("devices/cuda/",),
    "distributed": ("tuning/crew/dask_engine.py",),
    "ray": ("tuning/crew/ray_engine.py",),
    "filelock": ("store/locks.py", "tuning/ledger/"),
    "matplotlib": ("experiments/plot.py",),
    "ml_dtypes": ("space/dtypes.py",),
    "cloudpickle": ("door/sending.py",),
    "kernel_tuner": ("search/", "measure/timing/kernel_tuner_loop.py", "door/"),
    "numpy": ("",),
    "optuna": ("search/", "tuning/ledger/", "report/importance.py"),
    "pandas": ("session/tuned.py",),
    "pycuda": ("devices/cuda/pycuda_gpu.py",),
    "pydantic": ("space/file/", "exchange/interop/t1.py", "experiments/reading.py"),
    "pynvml": ("devices/cuda/sensors.py",),
    "pyopencl": ("devices/opencl/",),
    "rich": ("cli/verbs/",),
    "scipy": ("search/", "space/expressions/", "experiments/tables.py"),
    "sqlalchemy": ("tuning/ledger/", "exchange/exports/trials.py"),
    "threadpoolctl": ("search/pool_gp.py", "search/experienced_gp.py"),
    "torch": ("torch/",),
    "triton": ("devices/cuda/triton/program.py", "devices/cuda/triton/shared_memory.py"),
    "vl_convert": ("report/pages/vega.py",),
    "yaml": ("space/file/yamlfile.py", "exchange/interop/t1.py"),
}
FILES = sorted((ROOT / "tuner").rglob("*.py"))


@dataclass(frozen=True)
class Arrow:
    """An import: the file and line that it stands in, and the module that it names. `at_once`: it is carried out when
    its own module is imported, not in a function, nor for types alone."""

    file: Path
    line: int
    module: str
    at_once: bool

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {room_of(name_of(self.file))} imports {self.module}"


def name_of(file: Path) -> str:
    """The module that a file is."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(file): file for file in FILES}


def room_of(module: str) -> str:
    """`tuner.space.model` is in `space`, `tuner.errors` in `errors`, `tuner` itself in `__init__`."""
    return module.split(".")[1] if "." in module else "__init__"


def modules_named(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that a statement imports: `from tuner import errors` names `tuner.errors`, `from tuner import load`
    what `tuner` itself holds."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.module is not None, "a relative import; write it from tuner on"
    assert node.level == 0, "a relative import; write it from tuner on"
    inner = (f"{node.module}.{alias.name}" for alias in node.names)
    return [name if name in MODULES else node.module for name in inner]


def imports(node: ast.AST, at_once: bool = True) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All import statements inside `node`, and whether they are carried out at once."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, at_once
        elif not isinstance(child, ast.expr):
            yield from imports(child, at_once and not is_postponed(child))


def is_postponed(node: ast.AST) -> bool:
    """Whether what stands in `node` is not carried out when its module is imported."""
    for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return for_types or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def modules_in_strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The modules of the package that strings name in full, or by the folder that an f-string begins with, for
    `importlib` or for another process; each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            name = node.value.rstrip(".")
            if name in MODULES:
                yield node.lineno, name


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """The syntax tree of each module."""
    return {file: ast.parse(file.read_text()) for file in FILES}


@functools.cache
def arrows() -> list[Arrow]:
    """Every import that stands in the package, by a statement or by a name in a string."""
    return [
        *(
            Arrow(file, node.lineno, module, at_once)
            for file, tree in trees().items()
            for node, at_once in imports(tree)
            for module in modules_named(node)
        ),
        *(
            Arrow(file, line, module, at_once=False)
            for file, tree in trees().items()
            for line, module in modules_in_strings(tree)
        ),
    ]


def inside() -> list[Arrow]:
    """The imports of the package's own modules."""
    return [arrow for arrow in arrows() if arrow.module.partition(".")[0] == "tuner"]


@functools.cache
def edges() -> frozenset[tuple[str, str]]:
    """Which module imports which, in the package."""
    return frozenset((name_of(arrow.file), arrow.module) for arrow in inside())


def longest_chain(graph: Mapping[str, set[str]]) -> list[str]:
    """The longest way through what each node uses, its user first. Raises CycleError."""
    best: dict[str, list[str]] = {}
    for node in graphlib.TopologicalSorter(graph).static_order():
        best[node] = [node, *max((best[used] for used in graph.get(node, ())), key=len, default=[])]
    return max(best.values(), key=len)


def test_every_room_has_its_place() -> None:
    assert {room_of(module) for module in MODULES} == LEVELS.keys()


def test_no_room_imports_from_one_above_it() -> None:
    upward = [str(a) for a in inside() if LEVELS[room_of(a.module)] > LEVELS[room_of(name_of(a.file))]]
    assert not upward, "\n".join(["imports that run up:", *upward])


def table(heading: str) -> dict[str, set[str]]:
    """What the rooms of a table of CONTRIBUTING.md may import, by room: the names in its third column."""
    page = (ROOT / "CONTRIBUTING.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|.*?\| (.*?) \|(?:.*\|)?$", page, re.MULTILINE)
    return {
        room.strip("/"): set(LEVELS)
        if allowed == "everything"
        else {n.strip("/") for n in re.findall(r"`(.+?)`", allowed)}
        for rooms, allowed in rows
        for room in re.findall(r"`(.+?)`", rooms)
    }


def test_a_room_imports_what_its_line_in_the_table_of_rooms_allows() -> None:
    allowed = table("The rooms")
    assert allowed.keys() == LEVELS.keys() - {*ORDER[0], "__init__", "__main__"}
    pairs = [(a, room_of(name_of(a.file)), room_of(a.module)) for a in inside()]
    others = [str(a) for a, user, used in pairs if user in allowed and used not in {user, *ORDER[0], *allowed[user]}]
    assert not others, "\n".join(["imports that the table does not allow:", *others])
    used = {room: {used for _, user, used in pairs if user == room} - {room, *ORDER[0]} for room in allowed}
    unused = {room: names - used[room] for room, names in allowed.items() if room != "cli"}
    assert not any(unused.values()), "the table allows more than is used"


@dataclass(frozen=True)
class View:
    """A folder as a reader sees it: its modules and folders as boxes, and which of them import which, in functions and
    for types too. The package's `__init__` is a box of its own."""

    folder: str
    boxes: frozenset[str]
    arrows: frozenset[tuple[str, str]]

    @staticmethod
    def of(folder: str) -> View:
        """The view of `folder`, a package by its dotted name."""

        def box(module: str) -> str | None:
            if module == folder:
                return "__init__"
            return module[len(folder) + 1 :].partition(".")[0] if module.startswith(f"{folder}.") else None

        pairs = {(box(user), box(used)) for user, used in edges()}
        return View(
            folder,
            frozenset(found for module in MODULES if (found := box(module)) is not None),
            frozenset((user, used) for user, used in pairs if user and used and user != used),
        )

    @property
    def levels(self) -> int:
        """The boxes on its longest chain. Raises CycleError."""
        graph = {box: {used for user, used in self.arrows if user == box} for box in self.boxes}
        return len(longest_chain(graph))

    def __str__(self) -> str:
        counted = f"{len(self.boxes)} boxes, {self.levels} levels, {len(self.arrows)} arrows"
        return f"{self.folder.replace('.', '/')}/: {counted}"


def packages() -> list[str]:
    """The folders of the package, by dotted names."""
    return [module for module, file in MODULES.items() if file.name == "__init__.py"]


def test_no_folder_has_a_circle_of_imports_even_of_those_in_functions_or_for_types() -> None:
    for folder in packages():
        print(View.of(folder))  # raises CycleError, which names the circle


def test_modules_form_no_circle_even_by_imports_in_functions_or_for_types() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for user, used in edges():
        if used in MODULES and used != user:
            graph[user].add(used)
    assert longest_chain(graph)  # raises CycleError, which names the circle


def test_a_room_inside_a_room_imports_what_its_line_in_the_table_allows() -> None:
    allowed = table("The rooms inside")
    inner = {module.removeprefix("tuner.").replace(".", "/") for module in packages() if module.count(".") > 1}
    assert allowed.keys() == inner, "a line for each"
    for room, names in allowed.items():
        outer, _, own = room.rpartition("/")
        used = {used for user, used in View.of(f"tuner.{outer.replace('/', '.')}").arrows if user == own}
        assert used == names, f"{room} imports {sorted(used)} of {outer}"


def test_no_folder_is_too_full() -> None:
    counts = Counter(file.parent.relative_to(ROOT).as_posix() for file in FILES)
    assert max(counts.values()) <= MOST_MODULES, counts.most_common(3)


def test_rooms_and_modules_form_no_long_chains() -> None:
    rooms: dict[str, set[str]] = {room: set() for room in LEVELS}
    modules: dict[str, set[str]] = {module: set() for module in MODULES}
    for arrow in inside():
        user = name_of(arrow.file)
        if arrow.at_once and user != arrow.module:
            modules[user].add(arrow.module)
            if room_of(user) != room_of(arrow.module):
                rooms[room_of(user)].add(room_of(arrow.module))
    print(f"modules, {len(longest_chain(modules))} levels: {' > '.join(longest_chain(modules))}")
    print(f"rooms, {len(longest_chain(rooms))} levels: {' > '.join(longest_chain(rooms))}")
    assert max(len(longest_chain(rooms)), len(longest_chain(modules))) <= MOST_LEVELS


def test_few_modules_lie_outside_the_rooms() -> None:
    assert len([file for file in FILES if file.parent == ROOT / "tuner"]) <= MOST_MODULES_OUTSIDE


def test_every_third_party_package_has_its_importers() -> None:
    imported = {arrow.module.partition(".")[0] for arrow in arrows()}
    assert imported - sys.stdlib_module_names - {"tuner"} == IMPORTERS.keys()


@pytest.mark.parametrize("package", IMPORTERS)
def test_a_package_of_others_is_imported_where_it_belongs(package: str) -> None:
    users = [a for a in arrows() if a.module.partition(".")[0] == package]
    assert users
    places = ((a, a.file.relative_to(ROOT / "tuner").as_posix()) for a in users)
    elsewhere = [str(a) for a, place in places if not place.startswith(IMPORTERS[package])]
    assert not elsewhere, "\n".join([f"imports of {package} elsewhere:", *elsewhere])


NETWORK = {"asyncio", "ftplib", "http", "poplib", "smtplib", "socketserver", "ssl", "xmlrpc"}


def test_one_module_talks_to_the_network_for_the_verb_that_pulls_alone() -> None:
    """Databases and clusters aside, which SQLAlchemy, Dask and Ray connect to for those who name one."""
    sharing, web = "tuner.exchange.sharing", "tuner.exchange.sharing.web"
    of_network = {name_of(a.file) for a in arrows() if a.module.partition(".")[0] in NETWORK}
    requests = {name_of(a.file) for a in arrows() if a.module.startswith("urllib") and a.module != "urllib.parse"}
    for_dask = {"tuner.measure.remote.relay", "tuner.tuning.crew.dask_engine"}  # whose methods are coroutines
    assert of_network | requests == {web, *for_dask}
    users = {user for user, used in edges() if used.startswith(sharing) and not user.startswith(sharing)}
    assert users == {"tuner.cli.verbs.exchange.pull", "tuner.cli.verbs.exchange.push"}
    assert {user for user, used in edges() if used == web} == {f"{sharing}.pulled"}
    pushed = {used for user, used in edges() if user == f"{sharing}.pushed"}
    assert f"{sharing}.pulled" not in pushed


def test_no_two_classes_have_one_name() -> None:
    classes = [
        (node.name, f"{file.relative_to(ROOT)}:{node.lineno}")
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    counts = Counter(name for name, _ in classes)
    twice = [f"{place}: {name}" for name, place in classes if counts[name] > 1]
    assert not twice, "\n".join(["classes of one name:", *twice])
