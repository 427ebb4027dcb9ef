"""A process that compiles ahead: `python -m tuner.builder`. Several of them fill the cache of builds while the worker
measures; NVRTC locks inside a process, so threads would gain nothing."""

from __future__ import annotations

from tuner import devices, errors, form, process, source
from tuner.space import Limits, Scope


def main() -> None:
    """Serve until the parent is gone."""
    stream = process.replies()
    asked = process.requests()
    task = next(asked)
    compiler = devices.compiler(task["kind"], task["architecture"])
    space = form.from_json(task["space"])
    scope = Scope(task["sizes"], task["options"], task["language"], Limits.from_json(task["limits"]))
    process.reply(stream, {})
    for request in asked:
        try:
            compiler.build(source.render(space, request["build"], scope))
            process.reply(stream, {})
        except errors.TunerError as error:
            process.reply(stream, process.failure(error))


if __name__ == "__main__":
    main()
