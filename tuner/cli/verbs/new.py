"""`tune new`: the draft of a space file."""

from pathlib import Path

import click

from tuner.cli import output as console
from tuner.cli.options import JSON, output_option
from tuner.errors import RequestError
from tuner.quoting import shown


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--entry",
    metavar="NAME,..",
    help="The kernel, where the source has several; or several in their order, as the steps of one.",
)
@output_option("FILE", "The file to write; by default beside the source, with its name and .yaml. None is overwritten.")
@JSON
def command(source: Path, entry: str | None, output: Path | None, as_json: bool) -> None:
    """Write the draft of a space file for a kernel of yours, in CUDA, OpenCL C or C.

    It holds what SOURCE says: arguments, macros and template parameters as parameters, launch bounds, and the shapes
    and grid that follow from how it indexes. Where it does not say, as on what it computes, a comment `# ?` asks.

    Example: tune new my_kernel.cu
    """
    from tuner.drafting.draft import Draft

    file = output or source.with_suffix(".yaml")
    text = Draft(source, entry, file).text()
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise RequestError(f"{shown(file)}: is there already, and stays; name another file by --output") from None
    except OSError as error:
        raise RequestError(f"{shown(file)}: cannot be written: {error.strerror}; name another by --output") from None
    count = text.count("  # ? ")
    say = f"{file}: written, with {count} questions; `tune validate {file}` names them"
    console.answer(as_json, {"file": str(file), "questions": count}, say)
