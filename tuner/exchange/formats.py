"""The table of `tune export` formats, which help, validation and export read."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from tuner.classes import dataclass
from tuner.errors import RequestError
from tuner.exchange.exports.request import Export, ExportRequest
from tuner.quoting import shown


@dataclass(frozen=True)
class Format:
    """A format of `tune export`.

    module: has a function `export` from ExportRequest to Export, which writes the files. It raises RequestError if
        there is nothing to write, and OSError if a file cannot be written.
    holds_trials: the files hold all trials, which may come from a shared ledger.
    holds_family: the files hold the kernels of a family, at any size.
    has_architectures: the files are for given architectures, too, for which no device is needed.
    has_macros: the files hold macros, or a source with macros in place, which kernels in Python files have none of.
    """

    name: str
    description: str
    module: str
    holds_trials: bool = False
    holds_family: bool = False
    has_architectures: bool = False
    has_macros: bool = False


FORMATS: Mapping[str, Format] = {
    form.name: form
    for form in (
        Format("header", "the best as a C header of macros", "tuner.exchange.exports.header", has_macros=True),
        Format(
            "patch",
            "the best as a diff of the files that define the parameters",
            "tuner.exchange.exports.patch",
            has_macros=True,
        ),
        Format(
            "cubin",
            "the best as cubins for NVIDIA GPUs, with a C example",
            "tuner.exchange.exports.bundle",
            has_architectures=True,
        ),
        Format(
            "dispatch",
            "builds for any device and size, for tuner.dispatch",
            "tuner.exchange.exports.dispatch_bundle",
            holds_family=True,
        ),
        Format("times", "time tables as text", "tuner.exchange.exports.times", holds_family=True),
        Format(
            "cu",
            "the best as one specialised source, in CUDA, OpenCL C or C",
            "tuner.exchange.exports.single_file",
            has_architectures=True,
            has_macros=True,
        ),
        Format(
            "kernel-tuner", "all trials as its cache", "tuner.exchange.interop.kernel_tuner_files", holds_trials=True
        ),
        Format("t4", "all trials as FAIR T4 results", "tuner.exchange.interop.t4", holds_trials=True),
        Format("vllm", "the best for all numbers of rows, as vLLM reads them", "tuner.exchange.exports.vllm"),
        Format("csv", "a table of all trials", "tuner.exchange.exports.table", holds_trials=True),
    )
}


def export(to: str, request: ExportRequest) -> Export:
    """Write the files of the format `to`.

    Raises RequestError if an option does not apply to the format, there is nothing to write, or a file cannot be
    written.
    """
    if request.architectures is not None and not FORMATS[to].has_architectures:
        raise RequestError(f"--architecture applies to --to {_names('has_architectures')}, not to --to {to}")
    if request.storage is not None and not FORMATS[to].holds_trials:
        raise RequestError(f"--storage applies to --to {_names('holds_trials')}, not to --to {to}")
    python = request.problem.space.python_language if FORMATS[to].has_macros else None
    if python is not None:
        name = request.problem.space.name
        raise RequestError(f"--to {to}: {name} is written in {python.title}, which has no macros; use --to cubin")
    if request.problem.space.is_of_library and not (FORMATS[to].holds_trials or FORMATS[to].holds_family):
        raise RequestError(
            f"--to {to}: {request.problem.space.name} has no code, but algorithms of the vendor's library; use --to csv"
        )
    try:
        result: Export = importlib.import_module(FORMATS[to].module).export(request)
        return result
    except OSError as error:
        where = shown(error.filename or request.path(""))
        raise RequestError(f"{where}: cannot be written: {error.strerror}; name another file with --output") from None


def _names(attribute: str) -> str:
    """The names of the formats with this attribute: `kernel-tuner, t4 and csv`."""
    names = [form.name for form in FORMATS.values() if getattr(form, attribute)]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
