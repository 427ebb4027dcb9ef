"""Deployments: how a program launches a kernel, which decides what a time means and which configuration is the best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tuner.errors import OptionError, RequestError
from tuner.quoting import quoted

Deployment = Literal["isolated", "graph", "stream", "eager", "cold"]
ISOLATED: Deployment = "isolated"
GRAPH: Deployment = "graph"
# What a record says of each: the state of the caches, and how the kernel was launched unless that was alone.
CACHES: Mapping[Deployment, str] = {
    "isolated": "warm",
    "graph": "warm, graph",
    "stream": "warm, stream",
    "eager": "warm, eager",
    "cold": "cold",
}
WORDS: Mapping[Deployment, str] = {  # how it differs from most measurements
    "isolated": "",
    "graph": "in a graph",
    "stream": "back to back",
    "eager": "with the host's cost",
    "cold": "caches flushed",
}
REPEATED: frozenset[Deployment] = frozenset({"graph", "stream", "eager"})  # one time covers several launches
OF_GPUS: frozenset[Deployment] = frozenset(
    {"graph", "eager"}
)  # on other devices, launches cost nothing beside the kernel


def parse(text: str | None, flush: bool = False) -> Deployment:
    """The deployment of this name; None means `isolated`. `flush` is another name of `cold`.

    Raises OptionError for any other name, and for two different deployments.
    """
    found = next((name for name in CACHES if name == text), None)
    if text is not None and found is None:
        raise OptionError(f"{quoted(text)}: write one of {', '.join(CACHES)}", "as")
    if flush and found not in (None, "cold"):
        raise OptionError(f"{found}: the caches are flushed for `cold` alone; drop one of the two options", "as")
    return "cold" if flush else found or ISOLATED


def of_program(function: str, as_: object) -> Deployment:
    """The deployment that a program passes to a function as `as_`. Raises RequestError."""
    if as_ is None or (isinstance(as_, str) and as_ in CACHES):
        return parse(as_)
    raise RequestError(f"{function}(as_={quoted(as_)}): write one of {', '.join(CACHES)}")


def of_caches(caches: str) -> Deployment | None:
    """The deployment of a record with these `caches`; None for one of a newer version."""
    return next((name for name, own in CACHES.items() if own == caches), None)
