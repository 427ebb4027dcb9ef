"""The `tune` command: dispatches to the verbs, and turns their errors into messages and exit statuses.

Exit status: 0 for success; 1 if nothing valid was found or verification failed; 2 for a wrong request, with one message
on standard error; 130 after SIGINT, 143 after SIGTERM.
"""

import errno
import importlib
import os
import signal
import sys

import click
from click.shell_completion import CompletionItem

from tuner.cli import defaults, options, output
from tuner.cli.interrupts import Terminated
from tuner.cli.verb_names import VERBS
from tuner.errors import RequestError, TunerError
from tuner.measure.process import preparation
from tuner.measure.timing.hidden import Hidden
from tuner.quoting import shown
from tuner.version import VERSION

# Verbs whose module is not called like them.
_MODULES = {
    "export": "exchange.export", "import": "exchange.import_", "kernel": "tune", "merge": "exchange.merge",
    "pull": "exchange.pull", "push": "exchange.push", "verify": "exchange.verify",
}  # fmt: skip
_IN_FILES = {"kernel": defaults.TUNE}  # verbs that have another name in project files
_GONE = "the current folder has been deleted, so no path can be resolved and no compiler runs; change to another folder"
_DEFAULTS = defaults.Defaults()


class Verbs(click.Group):
    """The group of verbs. Each verb is the `command` of a module in `verbs/`, imported when the verb is used. A first
    word that is not a verb is taken as a kernel: `tune KERNEL SIZE`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["kernel", *VERBS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command: click.Command = importlib.import_module(f"tuner.cli.verbs.{_MODULES.get(cmd_name, cmd_name)}").command
        defaults.bind_environment(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name and command and not ctx.resilient_parsing:
            verbs = {_IN_FILES.get(verb, verb): verb for verb in self.list_commands(ctx)}
            ctx.default_map = {
                name: _DEFAULTS.of(
                    _IN_FILES.get(name, name), command, rest, verbs, lambda verb: self.get_command(ctx, verb)
                )
            }
        return name, command, rest

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = args or ["--help"]
        if args[0] not in (*self.list_commands(ctx), "--help", "-h", "--version", "--verbose"):
            args = ["kernel", *args]
        if args[0] == "kernel" and not ctx.resilient_parsing and not {"--help", "-h"}.intersection(args):
            preparation.prepare()  # first, so that the slow imports of this process run beside it
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        kernels = [name for name in options.kernels() if incomplete and name.startswith(incomplete)]
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, kernels)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            commands = {name: self.get_command(ctx, name) for name in VERBS}
            formatter.write_dl(
                [(name, command.get_short_help_str(80)) for name, command in commands.items() if command]
            )


@click.group(
    cls=Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="KERNEL SIZE | VERB",
    invoke_without_command=True,
)
@click.option("--version", is_flag=True, help="Show the version and exit.")
@click.option("--verbose", is_flag=True, help="With --version: also packages, devices and folders, for a bug report.")
@click.pass_context
def cli(context: click.Context, version: bool, verbose: bool) -> None:
    """Find the fastest configuration of KERNEL at SIZE on this machine, verify it and store it.

    KERNEL is a name from `tune list`, a unique part of one, or the path of a YAML file. SIZE is 4096, 4096x2048x1024,
    M=100,N=37,K=53 or 1000,batch=100. `tune kernel --help` shows the options, `tune VERB --help` those of a verb.

    Example: tune sgemm/07_tiled_1xn 1024 --device opencl
    """
    if verbose and not version:
        raise click.UsageError("--verbose is of --version: tune --version --verbose")
    if version:
        click.echo(_version(verbose))
        context.exit()
    if context.invoked_subcommand is None:
        raise click.UsageError("name a kernel or a verb")


def _version(verbose: bool) -> str:
    """The answer to `tune --version`."""
    if not verbose:
        return f"tune, version {VERSION}"
    from tuner.cli import versions

    return versions.report()


def main() -> None:
    """Run `tune` with the arguments of this process, and exit with its status."""
    _open_standard_files()
    Hidden().hide()
    signal.signal(signal.SIGTERM, _terminate)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:  # not under nohup, which ignores the signal
        signal.signal(signal.SIGHUP, _terminate)
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Exit as error:
        status = error.exit_code
    except click.ClickException as error:
        output.say(f"error: {_DEFAULTS.explain(_message(error))}")
        status = 2
    except TunerError as error:
        output.say(f"error: {_GONE if _is_folder_gone() else _DEFAULTS.explain(str(error))}")
        status = 2 if isinstance(error, RequestError) else 1
    except (KeyboardInterrupt, click.Abort):
        status = 130
    except Terminated:
        status = 143
    except BrokenPipeError:  # the reader of our output has closed the pipe, as `head` does
        _discard_output()
        status = 0
    except OSError as error:
        if _is_folder_gone():
            output.say(f"error: {_GONE}")
            sys.exit(2)
        if error.errno != errno.ENOSPC:
            raise
        _discard_output()
        output.say("error: standard output: no space left on the device; free some, or redirect the output")
        status = 1
    sys.exit(status if isinstance(status, int) else 0)


def _message(error: click.ClickException) -> str:
    """Click's message on one line, with a pointer to the right `--help`."""
    text = shown(" ".join(error.format_message().split()).rstrip("."))
    if isinstance(error, click.NoSuchOption):
        text = f"no such option {shown(error.option_name)}"
        if error.option_name.lstrip("-")[:1].isdigit():
            return f"{text}: a size is a whole number from 1 on"
        if error.option_name == "-V":
            return f"{text}; did you mean --version?"
        if error.possibilities:
            pointer = f" `{error.ctx.command_path} --help` lists all" if error.ctx else ""
            return f"{text}; did you mean {error.possibilities[0]}?{pointer}"
    usage = f"; see `{error.ctx.command_path} --help`" if isinstance(error, click.UsageError) and error.ctx else ""
    return text + usage


def _open_standard_files() -> None:
    """Open each standard file that the parent process has closed, so that no other file gets its descriptor."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    # Python sets sys.stdout or sys.stderr to None if its file was closed.
    sys.stdout, sys.stderr = sys.stdout or os.fdopen(1, "w"), sys.stderr or os.fdopen(2, "w")


def _is_folder_gone() -> bool:
    """Whether somebody has deleted the current folder, without which no path can be resolved and no compiler runs."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _discard_output() -> None:
    """Redirect standard output to /dev/null: Python flushes it again at exit, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _terminate(_signal: int, _frame: object) -> None:
    raise Terminated
