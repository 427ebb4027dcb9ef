"""The inputs and answers of a problem on the host, in a process of their own: a Python reference may crash it."""

import contextlib
import os
import sys
from dataclasses import asdict

from tuner.devices import open_device
from tuner.errors import SpaceError, WorkerDied
from tuner.measure.process import replies
from tuner.measure.process.channel import Process
from tuner.measure.process.task import START_TIMEOUT, Task, uncomputed
from tuner.measure.verify import host_answers
from tuner.measure.verify.host_answers import HostAnswers
from tuner.space import launch_form, snapshot
from tuner.space.model import Space
from tuner.space.scope import Limits, Scope


def computed(space: Space, problem: Scope) -> HostAnswers:
    """`host_answers.compute` in a new process, which prints to this one's standard error.

    Raises as that does, and SpaceError if the process crashes or takes too long.
    """
    task = Task(space, dict(problem.sizes), dict(problem.options), types=dict(problem.types))
    printed = os.dup(2)
    try:
        process = Process(__name__, [printed])
    finally:
        os.close(printed)
    about = {"language": problem.language, "limits": asdict(problem.limits), "printed": printed}
    with contextlib.closing(process):
        try:
            return HostAnswers.from_json(process.ask({**task.to_json(), **about}, START_TIMEOUT))
        except WorkerDied as died:
            raise SpaceError(uncomputed(space, died)) from None


def main() -> None:
    """Answer one request."""
    channel = replies.Channel()
    task = next(iter(channel))
    channel.print_to(task["printed"])
    with channel.reporting(), contextlib.redirect_stdout(sys.stderr):  # which keeps nothing back
        snapshot.adopt(task["files"])
        space, limits = launch_form.from_json(task["space"]), Limits.from_json(task["limits"])
        scope = space.operation.scope(task["sizes"], task["options"], task["language"], limits, task["types"])
        channel.reply(asdict(host_answers.compute(open_device("host"), space, scope)))
