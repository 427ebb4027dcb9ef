"""`tune new`: write the draft of a space file."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from tuner.cli import output as console
from tuner.cli.options import JSON, output_option
from tuner.errors import RequestError
from tuner.languages import PYTHON_LANGUAGES
from tuner.quoting import quoted, shown

PYTHON = PYTHON_LANGUAGES["triton"].suffix


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1)
@click.option(
    "--entry",
    metavar="NAME,..",
    help="Kernel to draft, if the source has several; or several kernels in launch order, as steps of one space.",
)
@click.option(
    "--source",
    "others",
    metavar="FILE",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="Another file of the same program: with the host code that launches the kernel, or with device functions. May "
    "be repeated. Without it, the files beside SOURCE are searched for the launch.",
)
@click.option(
    "--include",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Folder of headers, also with the kernel's code or its launch. May be repeated.",
)
@click.option(
    "--from-script",
    is_flag=True,
    help="SOURCE is a script of Kernel Tuner: run it, and write a space file for each call of tune_kernel. Its own "
    "arguments follow after --.",
)
@output_option(
    "FILE",
    "File to write; by default SOURCE with the suffix .yaml. An existing file is not overwritten. With --from-script, "
    "a folder; by default the current one.",
)
@JSON
def command(
    source: Path,
    arguments: tuple[str, ...],
    entry: str | None,
    others: tuple[Path, ...],
    include: tuple[Path, ...],
    from_script: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Write a draft space file for your own kernel in CUDA, OpenCL C, C or Triton.

    The draft holds what SOURCE tells: the arguments, macros and template parameters as parameters, launch bounds, and
    shapes and grid as the host code and index expressions tell. A comment `# ?` marks each place that needs an answer
    from you, such as what the kernel computes.

    Of a kernel in Triton, a Python file, it holds the configurations of @triton.autotune, and the file is not run.

    Example: tune new my_kernel.cu
    """
    if from_script:
        if entry or others or include:
            raise RequestError("--from-script: the script names the kernel; leave out --entry, --source and --include")
        _from_script([str(source), *arguments], output or Path(), as_json)
        return
    if arguments:
        advice = "write `--output FILE` to name the draft; only a script has arguments"
        raise RequestError(f"{shown(' '.join(arguments))}: a second argument; {advice}")
    from tuner.drafting.draft import Draft
    from tuner.drafting.host.program_files import including

    if not source.name:
        raise RequestError(f"{shown(source)}: a folder, not a kernel file; name one, such as my_kernel.cu")
    file = output or source.with_suffix(".yaml")
    if source.suffix == PYTHON:
        if others or include:
            raise RequestError("a kernel in a Python file imports what it needs; leave out --source and --include")
        from tuner.drafting.python.draft import PythonDraft

        text = PythonDraft(source, entry, file).text()
        _write(file, text, entry)
        _tell(file, text, "", as_json)
        return
    if python := next((other for other in others if other.suffix == PYTHON), None):
        advice = "leave it out, and write its build options, grid and block into the draft"
        raise RequestError(f"--source {quoted(str(python))}: host code in Python is not read; {advice}")
    whole, lines = including(source, others, entry, file)
    if lines:
        _write(whole, lines)
    try:
        text = Draft(whole, entry, file, include, others).text()
        _write(file, text, entry)
    except BaseException:
        if lines:
            whole.unlink(missing_ok=True)
        raise
    _tell(file, text, f"{whole}: written, because the kernels need several files\n" if lines else "", as_json)


def _tell(file: Path, text: str, also: str, as_json: bool) -> None:
    """Say which file was written, and how many questions it has."""
    count = len(re.findall(r"^# \? |  # \? ", text, re.MULTILINE))
    questions = "an open question" if count == 1 else f"{count} open questions"
    message = f"{also}{file}: written, with {questions}; `tune validate {file}` lists {'it' if count == 1 else 'them'}"
    console.answer(as_json, {"file": str(file), "questions": count}, message)


def _from_script(words: Sequence[str], folder: Path, as_json: bool) -> None:
    """Write the space files of the script `words[0]`, which has the other words as arguments, into `folder`."""
    from tuner.door.recording import ScriptRecording

    console.say(f"runs {shown(words[0])}, until it ends or uses results of tune_kernel")
    recording = ScriptRecording(folder)
    with console.diverted():
        recording.run(words)
    found = recording.questions
    lines = [
        f"{file}: written, with {count or 'no'} open question{'' if count == 1 else 's'}"
        for file, count in found.items()
    ]
    files = [{"file": str(file), "questions": count} for file, count in found.items()]
    console.answer(as_json, {"files": files}, "\n".join(lines))
    if recording.fault:
        raise RequestError(recording.fault)


def _write(file: Path, text: str, entry: str | None = None) -> None:
    """Write a new file. If it exists, the message proposes the name of the kernel: a source may have several."""
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        kernel = (entry or "").rpartition(":")[2]
        other = f", such as {shown(file.with_stem(kernel))}" if re.fullmatch(r"\w+", kernel) else ""
        raise RequestError(f"{shown(file)}: already exists; name another file with --output{other}") from None
    except OSError as error:
        raise RequestError(
            f"{shown(file)}: cannot be written: {error.strerror}; name another file with --output"
        ) from None
