from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ROOT, Done

import tuner
from tuner import paths
from tuner.devices import Device, build_cache
from tuner.devices.cuda import compiler
from tuner.errors import ArgumentError, BuildError, RequestError, SpaceError
from tuner.space import catalog, operation, source
from tuner.space.model import Limits, Scope, Space
from tuner.store.store import Record, Store

# An edited kernel makes the shipped records stale until it is tuned again; that is not what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*earlier version")
SHAPE = {"M": 40, "N": 30, "K": 50}
HEAVY = ["kernel_tuner", "optuna", "pandas", "scipy", "sklearn", "matplotlib", "pydantic", "yaml", "rich", "click"]


def arrays() -> tuple[np.ndarray[Any, Any], ...]:
    random = np.random.default_rng(1)
    return tuple(random.random((1, *s), dtype=np.float32) for s in ((40, 30), (40, 50), (50, 30)))


def test_a_loaded_kernel_computes_on_numpy_arrays(host: Device) -> None:
    kernel = tuner.load("sgemm/01_host_blocked", SHAPE, device=host)
    C, A, B = arrays()
    before = C.copy()
    kernel(C, A, B, alpha=2.0, beta=0.5)
    np.testing.assert_allclose(C, 2 * (A @ B) + 0.5 * before, rtol=1e-5)
    assert kernel.match == "default"
    assert kernel.record is None
    assert "01_host_blocked" in repr(kernel)


def test_a_loaded_kernel_computes_on_pyopencl_arrays(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    C, A, B = arrays()
    on_device = [array.to_device(opencl.queue, x) for x in (C, A, B)]
    kernel(*on_device)
    np.testing.assert_allclose(on_device[0].get(), A @ B, rtol=1e-5)


def test_a_bound_launch_can_be_repeated_and_keeps_its_arrays(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    C, A, B = arrays()
    launch = kernel.bind(C, A, B, alpha=3.0)
    A *= 2
    launch()
    expected, kept = 3 * (A @ B), weakref.ref(A)
    np.testing.assert_allclose(C, expected, rtol=1e-5)
    del A, B
    C[:] = 0
    launch()
    np.testing.assert_allclose(C, expected, rtol=1e-5)
    del launch, kernel
    assert kept() is None


def test_options_hold_for_one_launch(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    C, A, B = arrays()
    for options in ({"alpha": 2.0}, {}, {"alpha": 3.0}, {"alpha": 2.0}):
        kernel(C, A, B, **options)
        np.testing.assert_allclose(C, options.get("alpha", 1.0) * (A @ B), rtol=1e-5)


def in_threads(work: Callable[[int], None], count: int = 4) -> None:
    """Runs `work` with 0, 1, 2 .. at the same time, taking turns as often as can be; raises what one of them raises."""
    interval, together = sys.getswitchinterval(), threading.Barrier(count)
    sys.setswitchinterval(1e-6)

    def begin(number: int) -> None:
        together.wait(10)
        work(number)

    try:
        with ThreadPoolExecutor(count) as pool:
            list(pool.map(begin, range(count)))
    finally:
        sys.setswitchinterval(interval)


def test_threads_share_a_kernel(opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    _, A, B = arrays()
    zero = np.zeros((1, 40, 30), np.float32)
    queues = [cl.CommandQueue(opencl.context) for _ in range(4)]
    given = [[array.to_device(q, x) for x in (zero, A * n, B)] for n, q in enumerate(queues, 1)]

    def work(number: int) -> None:
        for _ in range(500):
            kernel(*given[number], beta=1.0)

    in_threads(work)
    for number, (C, *_) in enumerate(given, 1):
        np.testing.assert_allclose(C.get(), 500 * number * (A @ B), rtol=1e-4)


@pytest.mark.parametrize("given", ["the array's own", "named", "bound"])
def test_a_launch_goes_into_the_queue_of_the_array_or_the_one_that_is_named(given: str, opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    queue, gate = cl.CommandQueue(opencl.context), cl.UserEvent(opencl.context)
    own = queue if given == "the array's own" else opencl.queue
    C, A, B = (array.to_device(own, x) for x in arrays())
    before = C.get()
    cl.enqueue_barrier(queue, wait_for=[gate])  # nothing after it runs in this queue until the gate opens
    if given == "bound":
        kernel.bind(C, A, B, stream=queue)()
    else:
        kernel(C, A, B, **({"stream": queue} if given == "named" else {}))
    now = np.empty_like(before)
    cl.enqueue_copy(opencl.queue, now, C.base_data).wait()
    np.testing.assert_array_equal(now, before)
    gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    np.testing.assert_allclose(C.get(queue), A.get() @ B.get(), rtol=1e-5)


def test_a_stream_that_is_none_is_refused(host: Device, opencl: Any) -> None:
    from pyopencl import array

    with pytest.raises(ArgumentError, match="stream: the host has none"):
        tuner.load("sgemm/00_host_simple", SHAPE, device=host)(*arrays(), stream=7)
    with pytest.raises(ArgumentError, match="stream: of type int; pass a queue"):
        tuner.load("sgemm/03_naive", SHAPE, device=opencl)(
            *(array.to_device(opencl.queue, x) for x in arrays()), stream=7
        )


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


C, A, B = arrays()
MISFITS: dict[str, tuple[tuple[Any, ...], str]] = {
    "shape": ((C, A[:, :39], B), r"A: has shape \(1, 39, 50\).*\(1, 40, 50\)"),
    "dtype": ((C, A, B.astype(np.float64)), "B: has shape .* dtype float64"),
    "order": ((np.asfortranarray(C), A, B), "C: has strides"),
    "slice": ((C, A, np.zeros((1, 50, 60), np.float32)[:, :, ::2]), "B: has strides"),
    "device": ((C, [1.0], B), "A: of type list; pass a NumPy array"),
    "read-only": ((read_only(C), A, B), "C: is read-only"),
    "masked": ((C, np.ma.masked_less(A, 0.5), B), "A: is masked"),
    "too few": ((C, A), "2 arrays given; it takes 3: C, A, B"),
    "none": ((), "0 arrays given"),
    "unaligned": ((C, A, np.zeros(6001, np.uint8)[1:].view(np.float32).reshape(1, 50, 30)), "B: begins . bytes after"),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_an_argument_that_does_not_fit_is_named(misfit: str, host: Device) -> None:
    given, message = MISFITS[misfit]
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    for launch in (kernel, kernel.bind):
        with pytest.raises(ArgumentError, match=message):
            launch(*given)


def test_an_argument_from_another_opencl_context_is_named(opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", SHAPE, device=opencl)
    other = cl.CommandQueue(cl.Context(opencl.context.devices))
    given = [array.to_device(queue, x) for queue, x in zip((opencl.queue, other, opencl.queue), arrays(), strict=True)]
    with pytest.raises(ArgumentError, match="A: lies in another OpenCL context"):
        kernel(*given)
    part = array.to_device(opencl.queue, np.zeros((2, 40, 50), np.float32))[1:2]
    with pytest.raises(ArgumentError, match="A: begins 8000 bytes inside another array"):
        kernel(given[0], part, given[2])
    with pytest.raises(ArgumentError, match="C: of type ndarray; pass a pyopencl array"):
        kernel(*arrays())


def test_an_output_that_is_an_input_too_is_named(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", 16, device=host)
    memory = np.zeros(1000, np.float32)
    first, second = (memory[start : start + 256].reshape(1, 16, 16) for start in (0, 255))
    with pytest.raises(ArgumentError, match="C: shares memory with B"):
        kernel(first, np.zeros((1, 16, 16), np.float32), second)
    kernel(first, second.copy(), first.copy())


ALIGNED = "void aligned(float *C, const float *A, const float *B, int M, int N, int K, int batch, float a, float b) { }"


def test_a_stage_says_where_its_arrays_must_begin(stage: Callable[..., Path], host: Device) -> None:
    kernel = tuner.load(stage(ALIGNED, "aligned", "{x: [1]}", more="alignment: 64"), 16, device=host)
    memory = np.zeros(2000, np.float32)
    begin = -memory.ctypes.data % 64 // 4
    C, A, B = (memory[begin + start : begin + start + 256].reshape(1, 16, 16) for start in (0, 256, 512 + 4))
    with pytest.raises(ArgumentError, match="B: begins 16 bytes after a multiple of 64"):
        kernel(C, A, B)
    kernel(C, A, A)


CHOOSY = """
#if mode > 2
#error "this does not compile"
#elif mode == 2
void another_name(void) { }
void choosy() __attribute__((alias("no_such_symbol")));
#else
void choosy(float *C, const float *A, const float *B, int M, int N, int K, int batch, float a, float b) { C[0] = mode; }
#endif
"""


def a_record(host: Device, space: Space, modes: list[int]) -> Record:
    """A record whose best configuration and runners-up have these modes."""
    best, *others = ({"mode": mode} for mode in modes or [0])
    return Record(
        device=host.name, kind=host.kind, architecture=host.architecture, sizes={"M": 16, "N": 16, "K": 16, "batch": 1},
        options=dict(space.operation.options), config=best, time_ms=1.0, spread=0.01, rounds=9, gflops=1.0,
        library=None, library_ms=None, vs_library=None, error=0.0, bound=1.0, signature=source.signature(space),
        toolchain="cc", configurations=4, evaluated=4, failed={}, strategy="brute_force",
        date="2026-11-21T00:00:00+00:00", version="1", next=[{"config": one, "time_ms": 2.0} for one in others],
    )  # fmt: skip


@pytest.mark.parametrize(("modes", "taken"), [([3, 4, 1, 0], 1), ([3, 4], 0), ([2, 1], 1)])
def test_the_next_best_is_taken_with_a_warning_where_the_best_does_not_run(
    modes: list[int], taken: int, stage: Callable[..., Path], host: Device, tmp_path: Path
) -> None:
    file = stage(CHOOSY, "choosy", "{mode: [0, 1, 2, 3, 4]}", more="default: {mode: 0}")
    space = catalog.load(str(file))
    assert Store(space.name, tmp_path / "store").add(a_record(host, space, modes))
    with pytest.warns(UserWarning, match=f"mode={taken}>: taken because a better one does not run here: "):
        kernel = tuner.load(file, 16, device=host, results=tmp_path / "store")
    C, A, B = (np.full((1, 16, 16), 9, np.float32) for _ in "CAB")
    kernel(C, A, B)
    assert (kernel.config, C[0, 0, 0]) == ({"mode": taken}, taken)
    assert kernel.match == ("default" if taken == 0 else "exact")
    if modes == [3, 4]:
        with pytest.raises(BuildError, match="this does not compile"):
            tuner.load(file, 16, device=host, results=tmp_path / "store", strict=True)


def test_load_refuses_what_cannot_be(host: Device) -> None:
    with pytest.raises(RequestError, match="no exact record"):
        tuner.load("sgemm/00_host_simple", 64, device=host, strict=True)
    with pytest.raises(SpaceError, match=r"openmp = 7; allowed: \[0, 1\]"):
        tuner.load("sgemm/00_host_simple", 64, device=host, config={"openmp": 7})
    with pytest.raises(RequestError, match="no such option"):
        tuner.load("sgemm/00_host_simple", SHAPE, device=host)(*arrays(), gamma=1)
    for wrong, message in [
        ({"config": {"openmp": 1}, "strict": True}, "a given configuration is not looked up"),
        ({"config": 5}, r"load\(config=5\): write names with values"),
        ({"options": [1]}, r"load\(options=\[1\]\): write names with values"),
        ({"results": 5}, r"load\(results=5\): write the path"),
        ({"binaries": "a\0b"}, "write the path of a folder"),
    ]:
        with pytest.raises(RequestError, match=message):
            tuner.load("sgemm/00_host_simple", 64, device=host, **wrong)


LAUNCH = """
import sys
import numpy as np
import tuner
if {sealed}:
    def refuse(*args, **kwargs): raise AssertionError("it compiles")
    if {device!r} == "host":
        from tuner.devices.host import HostCompiler as Compiler
    else:
        from tuner.devices.opencl.device import OpenCLCompiler as Compiler
    Compiler.compile = refuse
kernel = tuner.load({kernel!r}, 64, device={device!r})
if {device!r} == "host":
    C, A, B = (np.ones((1, 64, 64), np.float32) for _ in "CAB")
    kernel(C, A, B)
else:
    from pyopencl import array
    C, A, B = (array.to_device(kernel.device.queue, np.ones((1, 64, 64), np.float32)) for _ in "CAB")
    kernel(C, A, B)
    C = C.get()
assert (C == 64).all()
print(sorted(set({heavy!r}) & set(sys.modules)))
"""


@pytest.mark.parametrize(("kernel", "device"), [("sgemm/01_host_blocked", "host"), ("sgemm/03_naive", "opencl")])
def test_a_launch_with_a_warm_cache_neither_compiles_nor_imports_the_tuning_side(kernel: str, device: str) -> None:
    for sealed in (False, True):
        script = LAUNCH.format(kernel=kernel, device=device, heavy=HEAVY, sealed=sealed)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = f"import sys, tuner; print(sorted({{*{HEAVY!r}, 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed without its dependencies."""
    site = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-compile"]
    done = subprocess.run(
        [*command, "--no-index", "--disable-pip-version-check", "--target", site, ROOT],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return site


@pytest.mark.parametrize(
    ("device", "kernel", "library"),
    [
        ("host", "sgemm/01_host_blocked", []),
        ("opencl", "sgemm/03_naive", ["pyopencl", "pytools", "platformdirs", "siphash24", "typing_extensions"]),
    ],
)
def test_the_package_without_its_dependencies_launches_beside_numpy_and_the_device_library(
    device: str, kernel: str, library: list[str], installed: Path, tmp_path: Path
) -> None:
    beside = tmp_path / "beside"
    beside.mkdir()
    for name in ["numpy", *library]:
        wheel = importlib.metadata.distribution(name)
        for part in {file.parts[0] for file in wheel.files or []} - {"..", "__pycache__"}:
            (beside / part).symlink_to(Path(str(wheel.locate_file(part))))
    script = f"import sys; sys.path[:0] = {[str(installed), str(beside)]!r}\n" + LAUNCH.format(
        kernel=kernel, device=device, heavy=HEAVY, sealed=False
    )
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_a_launch_form_is_as_true_where_kernel_space_and_cache_were_copied_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path / "cache"))
    here, there = tmp_path / "here", tmp_path / "far" / "there"
    for folder in ("spaces", "kernels"):
        shutil.copytree(ROOT / folder / "sgemm", here / folder / "sgemm")
    first = catalog.load(str(here / "spaces/sgemm/03_naive.yaml"))
    shutil.copytree(here, there)
    monkeypatch.setitem(sys.modules, "tuner.space.reader", None)  # cannot be imported, as where pydantic is missing
    monkeypatch.delattr(tuner, "spacefile")
    second = catalog.load(str(there / "spaces/sgemm/03_naive.yaml"))
    assert second.source == there / "kernels/sgemm/03_naive.cu"
    assert replace(second, source=first.source, files=first.files) == first
    (there / "spaces/sgemm/operation.yaml").write_text("another")
    with pytest.raises(RequestError, match=r"reading it needs .*, which is not installed; pip install"):
        catalog.load(str(there / "spaces/sgemm/03_naive.yaml"))


NO_COMPILER = """
import sys
sys.modules |= {"cuda": None, "nvidia": None}
from tuner import paths
from tuner.space import catalog, operation, source
from tuner.devices.cuda.compiler import NvrtcCompiler
from tuner.errors import DeviceError
from tuner.space.model import Limits, Scope
space = catalog.load("sgemm/03_naive")
sizes = operation.parse_size(64, space.operation)
scope = Scope(sizes, space.operation.options, "cuda", Limits(compute_capability=9.0))
made = source.render(space, dict(space.default), scope)
print(paths.digest(NvrtcCompiler("sm_90a").build(made).binary))
try:
    NvrtcCompiler("sm_53").build(made)
except DeviceError as error:
    print(error)
"""


def test_without_nvrtc_what_another_has_built_is_taken_and_else_one_message_says_what_is_missing() -> None:
    space = catalog.load("sgemm/03_naive")
    sizes = operation.parse_size(64, space.operation)
    scope = Scope(sizes, space.operation.options, "cuda", Limits(compute_capability=9.0))
    built = compiler.NvrtcCompiler("sm_90a").build(source.render(space, dict(space.default), scope))
    done = subprocess.run([sys.executable, "-c", NO_COMPILER], capture_output=True, text=True, check=True)
    taken, message = done.stdout.splitlines()
    assert taken == paths.digest(built.binary)
    assert re.match(
        r"sgemm_naive: compiling CUDA needs NVRTC; pip .* holds no build .* for sm_53: name a copy", message
    )


def test_an_exported_bundle_is_known_by_its_sources_and_no_other_folder_is_one(
    tune: Callable[..., Done], tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    asked = ("export", "sgemm/03_naive", "64", "--to", "cubin", "--architecture", "sm_80,sm_90a", "--output", bundle)
    assert tune(*asked).status == 0
    _, exported = build_cache.exported(bundle, "sgemm/03_naive")
    space = catalog.load("sgemm/03_naive")
    sizes = operation.parse_size(64, space.operation)
    scope = Scope(sizes, space.operation.options, "cuda", Limits(compute_capability=9.0))
    assert exported.source == source.render(space, exported.config, scope).digest
    assert exported.binary == (bundle / "sm_90a.cubin").read_bytes()
    assert [e.architecture for e in build_cache.exported(bundle, "sgemm/03_naive")] == ["sm_80", "sm_90a"]
    for text in ("{", "[]", '{"builds": [{"architecture": "sm_90a"}]}'):
        (bundle / "launch.json").write_text(text)
        with pytest.raises(RequestError, match="bundle: not a folder that `tune export --to cubin` wrote"):
            build_cache.exported(bundle, "sgemm/03_naive")


def test_two_kernels_that_are_loaded_by_name_take_the_same_pyopencl_arrays() -> None:
    from pyopencl import array

    first, second = (tuner.load(name, SHAPE, device="opencl") for name in ("sgemm/03_naive", "sgemm/06_tiled"))
    device: Any = first.device
    C, A, B = (array.to_device(device.queue, x) for x in arrays())
    first(C, A, B)
    second(C, A, B, beta=1.0)
    np.testing.assert_allclose(C.get(), 2 * (A.get() @ B.get()), rtol=1e-5)


def test_a_launch_within_a_launch_of_the_same_kernel_takes_nothing_of_it(opencl: Any) -> None:
    """As a signal handler's may be, at any point of the other one."""
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 16, device=opencl)
    ones = np.ones((1, 16, 16), np.float32)
    outer, inner = ([array.to_device(opencl.queue, x) for x in (0 * ones, ones, ones)] for _ in "XY")
    within = 0

    def handler(*_: object) -> None:
        nonlocal within
        within += 1
        kernel(*inner, alpha=2.0, beta=1.0)

    kernel(*outer, beta=1.0)
    before = signal.signal(signal.SIGALRM, handler)
    random = np.random.default_rng(1)
    try:
        for _ in range(999):
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1e-4))
            kernel(*outer, beta=1.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert within > 10
    assert (outer[0].get() == 16_000).all()
    assert (inner[0].get() == within * 32).all()


def test_a_launch_that_an_interrupt_ends_leaves_nothing_to_the_next_one(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 16, device=opencl)
    ones = np.ones((1, 16, 16), np.float32)
    C, A, B = (array.to_device(opencl.queue, x) for x in (ones, ones, ones))
    kernel(C, A, B)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before, random, interrupted = signal.signal(signal.SIGALRM, interrupt), np.random.default_rng(1), 0
    try:
        for _ in range(150):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 6e-5))
                kernel(C, A, B, alpha=2.0)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            kernel(C, A, B)
            assert (C.get() == 16).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 10


def test_threads_share_a_bound_launch(opencl: Any) -> None:
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 16, device=opencl)
    ones = np.ones((1, 16, 16), np.float32)
    C, A, B = (array.to_device(opencl.queue, x) for x in (0 * ones, ones, ones))
    launch = kernel.bind(C, A, B, beta=1.0)
    in_threads(lambda number: [launch() for _ in range(250)] and None)
    assert (C.get() == 16_000).all()


def test_options_are_what_it_was_loaded_with_where_a_launch_names_no_others(host: Device) -> None:
    kernel = tuner.load("sgemm/00_host_simple", SHAPE, device=host, options={"alpha": 2.0})
    C, A, B = arrays()
    for options, factor in (
        ({}, 2),
        ({"alpha": 1.0}, 1),
        ({"beta": 0.0}, 2),
        ({"alpha": -0.0}, 0),
        ({"alpha": 0.0}, 0),
    ):
        kernel(C, A, B, **options)
        np.testing.assert_allclose(C, factor * (A @ B), rtol=1e-5)
    assert not np.signbit(C).any()  # 0.0 is not taken for -0.0, nor True for 1.0
    with pytest.raises(RequestError, match="option alpha = True: a finite number"):
        kernel(C, A, B, alpha=True)
    with pytest.raises(RequestError, match=r"option alpha = 1.*: a finite number"):
        kernel(C, A, B, alpha=10**400)
    for large in (1e300, -(2**200)):
        with pytest.raises(RequestError, match="does not fit the kernel's float32"):
            kernel(C, A, B, alpha=large)


SCALED = """
title: Every step-th element
operation:
  sizes: {n: }
  options: {step: 1, a: 1.0}
  extent: [n]
  arguments:
    - {name: y, dtype: float32, shape: [n * step], role: out}
    - {name: n, dtype: int32}
    - {name: a, dtype: float32}
  reference: a + 0 * y
kernel: scaled
source: scaled.c
languages: [c]
parameters: {x: [1]}
"""


def test_an_option_that_shapes_or_code_depend_on_is_settled_when_the_kernel_is_loaded(
    host: Device, tmp_path: Path
) -> None:
    file = tmp_path / "scaled.yaml"
    file.write_text(SCALED)
    (tmp_path / "scaled.c").write_text(
        "void scaled(float *y, int n, float a) { for (int i = 0; i < n; i++) y[i] = a; }"
    )
    kernel = tuner.load(file, 8, device=host)
    y = np.zeros(8, np.float32)
    kernel(y, a=3.0, step=1)
    assert (y == 3).all()
    for launch in (kernel, kernel.bind):
        with pytest.raises(RequestError, match=r"option step = 4: .* settled when .*; load it with options={'step'"):
            launch(y, step=4)
    tuner.load(file, 8, device=host, options={"step": 4})(np.zeros(32, np.float32))


@pytest.mark.parametrize(("kernel", "device"), [("sgemm/01_host_blocked", "host"), ("sgemm/03_naive", "opencl")])
@pytest.mark.parametrize("damage", ["cut short", "changed"])
def test_a_damaged_build_is_made_again(
    damage: str, kernel: str, device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    script = LAUNCH.format(kernel=kernel, device=device, heavy=HEAVY, sealed=False)
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        kept = list(build_cache.folder().iterdir())
        assert kept
        for file in kept:
            data = bytearray(file.read_bytes())
            data[len(data) // 2] ^= 255
            file.write_bytes(data[:1000] if damage == "cut short" else data)


def test_a_damaged_build_is_not_loaded_where_it_cannot_be_replaced(
    host: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNER_CACHE", str(tmp_path))
    tuner.load("sgemm/00_host_simple", SHAPE, device=host)
    for file in build_cache.folder().iterdir():
        file.write_bytes(file.read_bytes()[:1000])

    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(paths, "replace", full)
    C, A, B = arrays()
    tuner.load("sgemm/00_host_simple", SHAPE, device=host)(C, A, B)
    np.testing.assert_allclose(C, A @ B, rtol=1e-5)


def test_a_pyopencl_array_whose_memory_is_not_what_it_says_is_named(opencl: Any) -> None:
    import pyopencl as cl
    from pyopencl import array

    kernel = tuner.load("sgemm/03_naive", 128, device=opencl)
    nbytes = 4 * 128 * 128

    def over(buffer: Any) -> Any:
        return array.Array(opencl.queue, (1, 128, 128), np.float32, data=buffer)

    def made(size: int, flag: Any = cl.mem_flags.READ_WRITE) -> Any:
        return cl.Buffer(opencl.context, flag, size)

    A, B = over(made(nbytes)), over(made(nbytes))
    whole = made(4 * nbytes)
    first, second = (whole.get_sub_region(begin, nbytes) for begin in (0, nbytes - 4096))
    for given, message in [
        ((over(made(1000)), A, B), "C: its buffer has 1000 bytes; 65536 are needed"),
        ((over(made(nbytes, cl.mem_flags.READ_ONLY)), A, B), "C: its buffer may only be read"),
        ((A, over(made(nbytes, cl.mem_flags.WRITE_ONLY)), B), "A: its buffer may only be written"),
        ((over(first), A, over(second)), "C: shares memory with B"),
        ((over(whole), over(first), B), "C: shares memory with A"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            kernel(*given)
    kernel(over(first), A, over(whole.get_sub_region(nbytes, nbytes)))
    unordered = cl.CommandQueue(opencl.context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    with pytest.raises(ArgumentError, match="stream: a queue that runs out of order"):
        kernel(over(first), A, B, stream=unordered)


def test_what_is_told_of_a_record_is_told_of_the_one_that_is_taken(
    stage: Callable[..., Path], host: Device, tmp_path: Path
) -> None:
    space = catalog.load(str(stage(CHOOSY, "choosy", "{mode: [0, 1, 2, 3, 4]}", more="default: {mode: 0}")))
    store = Store(space.name, tmp_path / "store")
    fresh, stale = a_record(host, space, [3]), replace(a_record(host, space, [1]), signature="another")
    assert store.add(fresh)
    assert store.add(stale)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        kernel = tuner.load(tmp_path / "choosy.yaml", 16, device=host, results=tmp_path / "store")
    assert (kernel.config, kernel.found.stale) == ({"mode": 1}, True)
    assert [bool(re.search("earlier version", str(w.message))) for w in told] == [True, False]
    assert store.add(replace(a_record(host, space, [3]), signature="another"))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*earlier version")
        warnings.filterwarnings("ignore", ".*taken because")
        assert tuner.load(tmp_path / "choosy.yaml", 16, device=host, results=tmp_path / "store").match == "default"


def test_a_configuration_in_which_a_derived_value_has_none_is_passed_over(
    stage: Callable[..., Path], host: Device, tmp_path: Path
) -> None:
    more = "default: {mode: 0}\nderived: {inverse: 16 // (mode - 2)}"
    file = stage(CHOOSY, "choosy", "{mode: [0, 1, 2]}", more=more)
    space = catalog.load(str(file))
    assert Store(space.name, tmp_path / "store").add(a_record(host, space, [2, 1]))
    with pytest.warns(UserWarning, match=r"mode=1>: taken because .*division"):
        tuner.load(file, 16, device=host, results=tmp_path / "store")


def test_a_bundle_that_is_of_no_use_here_is_told_of(tune: Callable[..., Done], opencl: Device, tmp_path: Path) -> None:
    asked = ("export", "sgemm/03_naive", "64", "--to", "cubin", "--architecture", "sm_80", "--output", tmp_path)
    assert tune(*asked).status == 0
    with pytest.warns(UserWarning, match="holds sm_80; opencl:0 is "):
        tuner.load("sgemm/03_naive", 64, device=opencl, binaries=tmp_path)
    with pytest.raises(RequestError, match="was exported for sgemm/03_naive, not for sgemm/06_tiled"):
        tuner.load("sgemm/06_tiled", 64, device=opencl, binaries=tmp_path)
    with pytest.raises(RequestError, match=r"not a folder that .* wrote: launch.json: No such file"):
        tuner.load("sgemm/06_tiled", 64, device=opencl, binaries=tmp_path / "nowhere")


def test_the_command_line_says_what_it_lacks() -> None:
    script = "import sys; sys.modules['click'] = None; from tuner.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "the command line needs click" in done.stderr


def test_what_was_measured_stays_true_where_comments_change_and_not_where_code_does(
    stage: Callable[..., Path],
) -> None:
    code = '#include "portable.h"\nKERNEL void k(GLOBAL float *C, int n) {\n    C[0] = n; // one\n}\n'
    file = stage(code, "k", "{x: [1]}", "opencl", "grid: [1]\nblock: [1]")
    before = source.signature(catalog.load(str(file)))
    kernel = file.with_suffix(".cu")
    kernel.write_text(f"// Two lines\n/* more of\n   them */\n{code.replace('one', 'another')}")
    assert source.signature(catalog.load(str(file))) == before
    kernel.write_text(code.replace("= n", "= n + 1"))
    assert source.signature(catalog.load(str(file))) != before
