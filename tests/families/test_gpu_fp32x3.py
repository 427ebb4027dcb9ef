"""Products of float32 matrices by tensor cores: every route, its error, and that a route is never silently worse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import tuner
from helpers.documents import TEXTS, blocks
from tuner.devices import Device
from tuner.search.enumeration import enumerated
from tuner.space.config import Config

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:.*earlier version")]
KERNEL = "sgemm3x/wgmma_halves"
HALVES, BFLOATS, FLOATS = 0, 1, 2  # the route, as the kernel counts tiles
AGAIN, ALL_AGAIN = 4, 5  # where it counts elements, and parts of tiles, that were summed again
ODD = {"M": 515, "N": 333, "K": 1001}
SIZES = [(1, 1024, 1024, 1024), (1, *ODD.values()), (2, 300, 200, 100), (1, 129, 65, 17), (1, 1, 1, 1)]
Make = Callable[[Any, tuple[int, ...]], Any]
Pair = Callable[[Any, int, int, int, int], tuple[Any, Any]]  # of batch, M, N and K: A and B


@pytest.fixture(scope="module")
def torch() -> Any:
    module = pytest.importorskip("torch")
    if module.cuda.get_device_capability() < (9, 0):
        pytest.skip("the kernel needs compute capability 9.0")
    return module


def normal(torch: Any, shape: tuple[int, ...]) -> Any:
    return torch.randn(shape, device="cuda")


def positive(torch: Any, shape: tuple[int, ...]) -> Any:
    return torch.rand(shape, device="cuda")


def spread(phi: float) -> Make:
    return lambda torch, shape: (torch.rand(shape, device="cuda") - 0.5) * torch.exp(phi * normal(torch, shape))


def with_zeros(torch: Any, shape: tuple[int, ...]) -> Any:
    return normal(torch, shape).clamp_min(0)


def of_many_sizes(torch: Any, shape: tuple[int, ...]) -> Any:
    return normal(torch, shape) * torch.exp(5 * normal(torch, (*shape[:-1], 1)))


def times(factor: float) -> Make:
    return lambda torch, shape: normal(torch, shape) * factor


def reaching_far(torch: Any, shape: tuple[int, ...]) -> Any:
    """Numbers of about 2^20, and in one column of three of 2^-115: no three bfloat16 have both."""
    values = normal(torch, shape) * 2.0**20
    values[..., ::3] *= 2.0**-135
    return values


def each(make_a: Make, make_b: Make) -> Pair:
    return lambda torch, batch, m, n, k: (make_a(torch, (batch, m, k)), make_b(torch, (batch, k, n)))


def in_units(reach: float) -> Pair:
    """Columns of A in units of 2^(-reach / 2) to 2^(reach / 2), and rows of B in their reciprocals."""

    def pair(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
        units = torch.exp2(reach * (torch.rand(k, device="cuda") - 0.5))
        return normal(torch, (batch, m, k)) * units, normal(torch, (batch, k, n)) / units[:, None]

    return pair


def in_two_units(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    units = torch.where(torch.arange(k, device="cuda") < k // 2, 1.0, 1e-12)
    a, b = 0.5 + positive(torch, (batch, m, k)), 0.5 + positive(torch, (batch, k, n))
    return a * units, b * units.flip(0)[:, None]


def times_identity(make: Make) -> Pair:
    return lambda torch, batch, m, n, k: (
        make(torch, (batch, m, k)),
        torch.eye(k, n, device="cuda").expand(batch, k, n),
    )


def padded(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    a, b = normal(torch, (batch, m, k)), normal(torch, (batch, k, n))
    a[:, m // 2 :], b[..., n // 2 :] = 0, 0
    return a, b


def with_one_tiny_number(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    a, b = normal(torch, (batch, m, k)), normal(torch, (batch, k, n))
    if k > 1:
        a[:, 0, 0] = 1e-30
    return a, b


def with_integers_far_below(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    """Rows of A are a large number, a few integers, and zeros; the large number meets a 0. Two halves hold them."""
    a, b = torch.zeros((batch, m, k), device="cuda"), 0.5 + positive(torch, (batch, k, n))
    a[..., k // 2 : k // 2 + 3] = torch.randint(1, 8, (batch, m, min(3, k - k // 2)), device="cuda").float()
    if k > 1:
        a[..., 0], b[:, 0] = 2.0**38, 0
    return a, b


def with_one_integer_far_below(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    a, b = with_integers_far_below(torch, batch, m, n, k)
    a[..., k // 2 + 1 :] = 0
    return a, b


def cancelling(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    """The second half of a sum is the first one's negative, but for a millionth."""
    a, b = normal(torch, (batch, m, k)), normal(torch, (batch, k, n))
    half = k // 2
    a[..., half : 2 * half] = -a[..., :half] * (1 + 1e-6 * normal(torch, (batch, m, half)))
    b[:, half : 2 * half] = b[:, :half]
    return a, b


def at_both_ends(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    """Numbers near the largest that there are, and in each row one that the lift of the others makes 0."""
    a, b = normal(torch, (batch, m, k)) * 2.0**124, normal(torch, (batch, k, n)) * 2.0**-100
    if k > 1:
        a[..., k // 3] *= 2.0**-120
        a[..., k // 3] *= 2.0**-120  # of float32, as is each factor
    return a, b


def of_mixed_routes(torch: Any, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    """A row of A that needs bfloat16, one that needs float32, and one in which single elements are done again."""
    a, b = normal(torch, (batch, m, k)), normal(torch, (batch, k, n))
    a[:, m // 2] *= torch.exp2(-25 * torch.rand(k, device="cuda"))
    a[:, m - 1] *= 1e-37
    a[:, 0, 0], b[:, 1:, 0] = 1e-8, 0
    return a, b


DATA: dict[str, tuple[Pair, int | None]] = {  # and the route of each tile
    "normal": (each(normal, normal), HALVES),
    "positive": (each(positive, positive), HALVES),
    "half of them 0": (each(with_zeros, with_zeros), HALVES),
    "rows of all sizes": (each(of_many_sizes, normal), HALVES),
    "large": (each(times(1e30), times(1e-5)), HALVES),
    "padded": (padded, HALVES),
    "with one tiny number": (with_one_tiny_number, HALVES),
    "with one integer far below": (with_one_integer_far_below, HALVES),
    "with integers far below": (with_integers_far_below, None),
    "cancelling": (cancelling, HALVES),
    "at both ends": (at_both_ends, None),
    "spread": (each(spread(2), spread(2)), None),
    "spread widely": (each(spread(8), spread(8)), None),
    "units over 2^10": (in_units(10), None),
    "units over 2^18": (in_units(18), None),
    "units over 2^24": (in_units(24), None),
    "two units": (in_two_units, None),
    "times an identity": (times_identity(normal), None),
    "spread, times an identity": (times_identity(spread(2)), None),
    "of mixed routes": (of_mixed_routes, None),
    "denormal": (each(times(1e-41), normal), FLOATS),
    "of far exponents": (each(reaching_far, normal), FLOATS),
}


def configs(kernel: Any) -> Iterator[Config]:
    """One configuration of each tile, each order of warp groups, and each number of blocks that share the depth."""
    seen = set()
    for config in enumerated(kernel.space, kernel.scope).configs():
        key = tuple(config[name] for name in ("block_m", "block_n", "in_turn", "together"))
        if key not in seen and (config["together"] == 1 or config["in_turn"] == config["block_m"] // 128):
            seen.add(key)
            yield config


@pytest.fixture
def odd(torch: Any, cuda: Device) -> list[Any]:
    """The kernel in each of these configurations, for ODD. They are built at the same time: each takes seconds."""

    def built(config: Config) -> Any:
        return tuner.load(KERNEL, ODD, device=cuda, config=config)

    with ThreadPoolExecutor(8) as threads:
        return [*threads.map(built, configs(tuner.load(KERNEL, ODD, device=cuda)))]


def bound(a: Any, b: Any, route: int | None = HALVES) -> Any:
    """Of |C - exact|, for tiles of a route or of any: see docs/fp32x3.md."""
    depth = a.shape[-1]
    factors = {HALVES: 83 + depth / 32, BFLOATS: 83 + depth / 32, FLOATS: depth}
    factor = max(factors.values()) if route is None else factors[route]
    a, b = a.double().abs(), b.double().abs()
    return a @ b * (factor * 2.0**-24) + depth * 2.0**-149  # where products are denormal, float32 rounds that much


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_each_route_is_within_the_bound_and_gives_the_same_bits_again(
    name: str, size: tuple[int, ...], torch: Any, cuda: Device, request: pytest.FixtureRequest
) -> None:
    torch.manual_seed(sum(size))
    make, route = DATA[name]
    batch, m, n, k = size
    a, b = (matrix.contiguous() for matrix in make(torch, batch, m, n, k))
    exact, most = a.double() @ b.double(), bound(a, b, route)
    sizes = {"M": m, "N": n, "K": k, "batch": batch}
    for kernel in request.getfixturevalue("odd") if size == SIZES[1] else [tuner.load(KERNEL, sizes, device=cuda)]:
        config = kernel.config
        c = torch.full((batch, m, n), float("nan"), device="cuda")
        launch = kernel.bind(c, a, b)
        launch()
        again = c.clone()
        c.fill_(float("nan"))
        launch()
        assert torch.equal(c.view(torch.int32), again.view(torch.int32)), config
        assert bool(((c.double() - exact).abs() <= most).all()), config
        routes = launch.scratch("routes")
        if route is not None:
            assert routes[route] == routes[:3].sum() > 0, (config, routes)


@pytest.mark.parametrize("beta", [0.0, -1.0])
def test_an_element_to_which_a_small_number_matters_is_exact(beta: float, torch: Any, odd: list[Any]) -> None:
    a, b = normal(torch, (1, 515, 1001)), normal(torch, (1, 1001, 333))
    a[0, 200, 7], b[0, :, 100], b[0, 7, 100] = 1e-9, 0, 1  # two halves hold one digit of 1e-9 beside a normal number
    for kernel in odd:
        config, c = kernel.config, torch.ones((1, 515, 333), device="cuda")
        launch = kernel.bind(c, a, b, alpha=2.0, beta=beta)
        launch()
        assert c[0, 200, 100] == torch.tensor(1e-9) * 2 + beta, config
        exact = 2 * (a.double() @ b.double()) + beta
        assert bool(((c.double() - exact).abs() <= 2 * bound(a, b) + 2.0**-22 * exact.abs()).all()), config
        routes = launch.scratch("routes")
        assert routes[HALVES] == routes[:3].sum(), (config, routes)
        assert 1 <= routes[AGAIN] < 100, (config, routes)
        assert routes[ALL_AGAIN] == 0, (config, routes)


def test_tiles_with_many_such_elements_are_multiplied_in_float32(torch: Any, odd: list[Any]) -> None:
    a, b = normal(torch, (1, 515, 1001)), normal(torch, (1, 1001, 333))
    a[..., :2] *= 1e-9
    b[:, 2:, :] = 0
    for kernel in odd:
        config, c = kernel.config, torch.full((1, 515, 333), float("nan"), device="cuda")
        launch = kernel.bind(c, a, b)
        launch()
        assert bool(((c.double() - a.double() @ b.double()).abs() <= bound(a[..., :2], b[:, :2], FLOATS)).all()), config
        routes = launch.scratch("routes")
        assert routes[HALVES] == routes[:3].sum(), (config, routes)
        tiles = -(-515 // config["block_m"]) * -(-333 // config["block_n"])
        groups = tiles * config["block_m"] // 64 * config["together"]
        assert 0.5 * groups < routes[ALL_AGAIN] <= groups, (config, routes)


def test_ordinary_numbers_are_hardly_ever_summed_again(torch: Any, cuda: Device) -> None:
    sizes = {"M": 2048, "N": 2048, "K": 2048}
    for make in (normal, positive, with_zeros, spread(1)):
        a, b = make(torch, (1, 2048, 2048)), make(torch, (1, 2048, 2048))
        launch = tuner.load(KERNEL, sizes, device=cuda).bind(torch.empty((1, 2048, 2048), device="cuda"), a, b)
        launch()
        assert launch.scratch("routes")[AGAIN] <= 2048**2 / 10000
        assert launch.scratch("routes")[ALL_AGAIN] == 0


def test_infinities_and_nan_reach_the_outputs_that_they_reach_in_float32(torch: Any, cuda: Device) -> None:
    a, b = normal(torch, (1, 600, 700)), normal(torch, (1, 700, 800))
    a[0, 5, 9], a[0, 300, 1], b[0, 2, 700] = float("inf"), float("nan"), float("-inf")
    c = torch.empty((1, 600, 800), device="cuda")
    launch = tuner.load(KERNEL, {"M": 600, "N": 800, "K": 700}, device=cuda).bind(c, a, b)
    launch()
    exact = a.double() @ b.double()
    assert torch.equal(c.isnan(), exact.isnan())
    assert torch.equal(c.isinf(), exact.isinf())
    assert torch.equal(c[exact.isinf()], exact[exact.isinf()].float())
    routes = launch.scratch("routes")
    assert min(routes[HALVES], routes[FLOATS]) > 0, "only the tiles that they reach are multiplied in float32"


def test_tiles_of_one_product_take_different_routes(torch: Any, cuda: Device) -> None:
    a, b = normal(torch, (1, 1024, 512)), normal(torch, (1, 512, 1024))
    a[0, 700] *= torch.exp(4 * torch.randn(512, device="cuda"))
    c = torch.empty((1, 1024, 1024), device="cuda")
    launch = tuner.load(KERNEL, {"M": 1024, "N": 1024, "K": 512}, device=cuda).bind(c, a, b)
    launch()
    assert launch.scratch("routes")[:2].min() > 0
    assert bool(((c.double() - a.double() @ b.double()).abs() <= bound(a, b, None)).all())


def test_a_graph_captures_all_steps_and_takes_the_route_of_the_data_at_hand(torch: Any, cuda: Device) -> None:
    a, b = normal(torch, (1, 512, 512)), normal(torch, (1, 512, 512))
    c = torch.empty((1, 512, 512), device="cuda")
    kernel = tuner.load(KERNEL, 512, device=cuda)
    kernel(c, a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(c, a, b)
    for data in (a.clone(), spread(8)(torch, a.shape), in_units(12)(torch, 1, 512, 512, 512)[0]):
        a.copy_(data)
        graph.replay()
        assert bool(((c.double() - a.double() @ b.double()).abs() <= bound(a, b, None)).all())


LAYOUTS: dict[str, Callable[[Any], tuple[Any, Any]]] = {
    "contiguous": lambda torch: (normal(torch, (1024, 1000)), normal(torch, (1000, 1100))),
    "stacks": lambda torch: (normal(torch, (3, 700, 600)), normal(torch, (3, 600, 900))),
    "transposed": lambda torch: (normal(torch, (1000, 1024)).T, normal(torch, (1100, 1000)).T),
    "rows apart": lambda torch: (normal(torch, (1024, 2048))[:, 100:1101], normal(torch, (1001, 2000))[:, :999]),
    "small": lambda torch: (normal(torch, (100, 70)), normal(torch, (70, 50))),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_matmul_takes_any_layout_and_size(layout: str, torch: Any) -> None:
    a, b = LAYOUTS[layout](torch)
    exact, most = a.double() @ b.double(), bound(a, b)
    c = tuner.matmul(a, b, precision="fp32x3", wait=True)
    assert bool(((c.double() - exact).abs() <= most).all())
    d = tuner.matmul(a, b, out=c.clone(), alpha=2.0, beta=-1.0, precision="fp32x3")
    assert bool(((d.double() - exact).abs() <= 4 * most).all())


def test_the_examples_of_the_page_run(torch: Any) -> None:
    names: dict[str, Any] = {}
    for block in blocks(TEXTS["docs/fp32x3.md"], "py"):
        exec(compile(block, "docs/fp32x3.md", "exec"), names)
    a, b, c = (names[name] for name in "abc")
    assert bool(((c.double() - a.double() @ b.double()).abs() <= bound(a, b)).all())
    assert names["launch"].scratch("routes")[HALVES] == names["halves"] > 0


def test_a_square_of_1024_is_multiplied_by_tensor_cores_only_where_that_is_asked(torch: Any) -> None:
    a, b = normal(torch, (1024, 1024)), normal(torch, (1024, 1024))
    tuner.matmul(a, b, precision="fp32x3", wait=True)
    assert tuner.matmul.explain(a, b, precision="fp32x3").kernel == KERNEL
    assert not tuner.matmul.explain(a, b).kernel.startswith("sgemm3x")
    few = tuner.matmul.explain(a[:512, :512].contiguous(), b[:512, :512].contiguous(), precision="fp32x3")
    turned = tuner.matmul.explain(a.T, b.T, precision="fp32x3")
    assert not few.kernel.startswith("sgemm3x"), "to split so few numbers takes longer than it saves"
    assert not turned.kernel.startswith("sgemm3x"), "so do copies of both"
    assert "precision 'fp32x3' is set aside: batch * M * N * K is below" in few.why
    assert "precision 'fp32x3' is set aside: its kernels are expected to take" in turned.why
    operator = tuner.torch.operator("sgemm3x_test::product", "sgemm3x")
    c = torch.empty((1, 1024, 1024), device="cuda")
    operator.out(c, a[None], b[None])
    np.testing.assert_allclose(c[0].cpu().numpy(), (a.double() @ b.double()).cpu().numpy(), rtol=0, atol=1e-4)
