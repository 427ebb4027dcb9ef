"""`tune`: which verb, and what its errors become.

Exit status: 0 done; 1 ran, but nothing valid was found or verification failed; 2 the request was wrong, with one
message on standard error; 130 or 143 interrupted.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys

import click

from tuner.cli import output
from tuner.cli.options import Terminated
from tuner.errors import RequestError, TunerError
from tuner.version import VERSION

VERBS = (
    "best", "devices", "export", "import", "list", "merge", "record", "replay", "report", "reproduce", "run", "schema",
    "show", "validate",
)  # fmt: skip
_MODULES = {"import": "import_", "kernel": "tune"}  # others are called as their verbs are


class Verbs(click.Group):
    """The verbs, each a module of this folder with a `command`, imported when it is asked for. A first word that is no
    verb is a kernel: `tune KERNEL SIZE`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["kernel", *VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"tuner.cli.{_MODULES.get(cmd_name, cmd_name)}").command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = args or ["--help"]
        if args[0] not in (*self.list_commands(ctx), "--help", "-h", "--version"):
            args = ["kernel", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            commands = {name: self.get_command(ctx, name) for name in VERBS}
            formatter.write_dl(
                [(name, command.get_short_help_str(80)) for name, command in commands.items() if command]
            )


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]}, subcommand_metavar="KERNEL SIZE | VERB"
)
@click.version_option(VERSION, prog_name="tune")
def cli() -> None:
    """Find, prove and remember the fastest configuration of KERNEL at SIZE on the device at hand.

    KERNEL is a name from `tune list`, a unique part of one, or a path to a YAML file. SIZE is 4096,
    4096x2048x1024, M=100,N=37,K=53 or 1000,batch=100. See `tune kernel --help` for the options.

    Example: tune sgemm/07_tiled_1xn 1024 --device opencl
    """


def main() -> None:
    """Entry point of `tune`."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Exit as leaving:
        status = leaving.exit_code
    except click.NoSuchOption as error:
        number = error.option_name.lstrip("-")[:1].isdigit()
        hint = (
            ": a size is a whole number from 1 on"
            if number
            else f"; see `{error.ctx.command_path} --help`"
            if error.ctx
            else ""
        )
        output.say(f"error: no such option {error.option_name}{hint}")
        status = 2
    except click.ClickException as error:
        where = f"; see `{error.ctx.command_path} --help`" if isinstance(error, click.UsageError) and error.ctx else ""
        output.say(f"error: {' '.join(error.format_message().split()).rstrip('.')}{where}")
        status = 2
    except RequestError as error:
        output.say(f"error: {error}")
        status = 2
    except TunerError as error:
        output.say(f"error: {error}")
        status = 1
    except (KeyboardInterrupt, click.Abort):
        status = 130
    except Terminated:
        status = 143
    except BrokenPipeError:  # the reader of our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python would try again at exit
        output.say("error: standard output: no space left on it; free some, or send it elsewhere")
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def _terminated(_signal: int, _frame: object) -> None:
    raise Terminated
