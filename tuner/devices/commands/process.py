"""Runs a compiler as a process, within its limits of seconds and memory."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from tuner.devices import environment
from tuner.devices.builds.allowance import Allowance
from tuner.errors import BuildError
from tuner.quoting import shown

# The shell sets the limits, so that no Python code runs between fork and exec. A limit that the system lacks is
# skipped.
LIMITED = 'ulimit -t "$1" 2>/dev/null; ulimit -v "$2" 2>/dev/null; shift 2; exec "$@"'
CANNOT_RUN = (126, 127)  # exit statuses of a shell
MOST_NAME = 100  # characters of the file's name in messages; a name of more than 255 is none


def run(
    command: Sequence[str],
    folder: str,
    allowance: Allowance | None = None,
    variables: Mapping[str, str] = os.environ,
) -> str:
    """What `command` writes to its standard error; `folder` is that of its files, which the text does not name.

    Each process of it gets the whole allowance. Raises BuildError with this text if it fails, and EnvironmentTrouble if
    it cannot be run.
    """
    process = _run(_limited(command, allowance), variables)
    if process.returncode in CANNOT_RUN:
        said = shown((process.stderr.strip().splitlines() or ["the compiler cannot be run"])[-1])
        raise environment.trouble(environment.OTHER, f"{command[0]}: {said}")
    log = process.stderr.replace(f"{folder}/", "").strip()
    if process.returncode:
        if process.returncode < 0:
            number = -process.returncode
            log = f"{log}\n{signal.strsignal(number)} signal terminated program {command[0]}".strip()
        raise BuildError(log or f"{command[0]} failed")
    return log


def told(command: Sequence[str], variables: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """What a command writes to its standard output and to its standard error, whether or not it fails."""
    process = _run(command, variables)
    return process.stdout, process.stderr


def _limited(command: Sequence[str], allowance: Allowance | None) -> Sequence[str]:
    """The command line that runs `command` within the allowance."""
    if allowance is None:
        return command
    return ["/bin/sh", "-c", LIMITED, "sh", str(allowance.seconds), str(allowance.memory >> 10), *command]


def _run(command: Sequence[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        errors="replace",
        env={**variables, "LC_ALL": "C"},  # tuner parses the log, which must be English
    )
