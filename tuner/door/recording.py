"""Space files from a script of Kernel Tuner: the script runs, and each call of `tune_kernel` is written down."""

from __future__ import annotations

import contextlib
import inspect
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import kernel_tuner

from tuner.door import replacement, spaces
from tuner.door.calls import arguments as call_arguments
from tuner.door.calls import checks, macros, script_restrictions
from tuner.door.calls.call import Call
from tuner.errors import RequestError
from tuner.quoting import innermost, shown
from tuner.space.expressions.function_names import origin
from tuner.space.model import Space
from tuner.space.python import written_files
from tuner.space.sources import source_text
from tuner.space.sources.checks import macros as macro_checks
from tuner.space.sources.includes import without_comments

SIGNATURE = inspect.signature(kernel_tuner.tune_kernel)


class ScriptEnded(BaseException):
    """The script has used results, which a recording does not have."""


class Unmeasured:
    """Stands for results: any use of it ends the script."""

    def _ended(self, *_: object) -> NoReturn:
        raise ScriptEnded

    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = __str__ = __repr__ = __eq__ = _ended

    def __getattr__(self, name: str) -> NoReturn:
        self._ended()


@dataclass
class ScriptRecording:
    """The space files that a script gives, in `folder`.

    questions: what each file leaves open, counted.
    fault: what ended the script before it used results; empty for nothing.
    """

    folder: Path
    questions: dict[Path, int] = field(default_factory=dict)
    fault: str = ""

    def run(self, words: Sequence[str]) -> None:
        """Run the script `words[0]` with the others as its arguments, until it ends or uses results.

        Raises RequestError if it has no call of `tune_kernel`, or one that no space can hold.
        """
        if not Path(words[0]).is_file():
            raise RequestError(f"{shown(words[0])}: there is no such script; name a file")
        with replacement.replaced(self.record), contextlib.suppress(ScriptEnded):
            try:
                replacement.run(words)
            except (Exception, SystemExit) as error:
                if not self.questions:
                    raise
                self.fault = _fault(error, words[0])
        if not self.questions:
            raise RequestError(
                f"{shown(words[0])}: it has not called tune_kernel; name a script that does, "
                "or pass it the arguments with which it does, after --: `tune new --from-script SCRIPT -- --tune`"
            )

    def record(self, *values: Any, **keywords: Any) -> tuple[Unmeasured, Unmeasured]:
        """What `tune_kernel` with these arguments tunes, as a space file. Raises RequestError as `tune_kernel` does."""
        bound = SIGNATURE.bind(*values, **keywords)
        bound.apply_defaults()
        given = bound.arguments
        checks.check(given)
        call = Call.of(given)
        if call.generator is not None:
            raise RequestError("kernel_source: a function makes the source, which no space file can hold")
        if not macros.are_options(call):
            raise RequestError(
                "defines: no space file can hold functions, texts with spaces, or other values of parameters; write "
                "the macros into the source"
            )
        file = self._file(written_files.stem(call.kernel_name))
        arrays = file.with_suffix(".files").resolve()
        atol = 1e-6 if given["atol"] is None else given["atol"]
        listed = script_restrictions.listed(given["restrictions"])
        passed, texts = call_arguments.passed(call), [each for each in listed if isinstance(each, str)]
        answers = {} if given["verify"] else call_arguments.answers(call, passed, given["answer"])
        name = f"{self.folder.resolve().name}/{file.stem}"
        arrays.mkdir(parents=True, exist_ok=True)
        try:
            made, _ = spaces.space(call, passed, answers, None, atol, (), texts, arrays, name, functions=False)
            text = made.to_yaml(file.resolve())
        except RequestError:
            shutil.rmtree(arrays)
            raise
        asked = [*_questions(given, listed, call), *_unread(made.model)]
        for key, question in asked:
            text = _with(text, key, question)
        file.write_text(text, encoding="utf-8")
        self.questions[file] = len(asked)
        return Unmeasured(), Unmeasured()

    def _file(self, stem: str) -> Path:
        """A new file in the folder. Raises RequestError if it is one of an earlier script."""
        number = sum(file.stem.partition("-")[0] == stem for file in self.questions)
        file = self.folder / f"{stem}{f'-{number + 1}' if number else ''}.yaml"
        if file.exists():
            raise RequestError(f"{shown(file)}: already exists; name another folder with --output")
        return file


def _fault(error: BaseException, script: str) -> str:
    """What ended a script after its first call; empty if it was the end of the script, or the use of results."""
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return ""
    if isinstance(error, TypeError) and Unmeasured.__name__ in str(error):  # a function in C asks for the type only
        return ""
    if isinstance(error, RequestError):
        return str(error)
    frame = innermost(error, lambda name: name == script)
    line = f", line {frame.lineno}" if frame is not None else ""
    return f"{script}{line}: {type(error).__name__}: {shown(error)}; the calls after it are not written; correct it"


def _questions(given: dict[str, Any], restrictions: Sequence[Any], call: Call) -> Iterator[tuple[str, str]]:
    """What a space file cannot say, by the key that should."""
    for each in restrictions:
        if not isinstance(each, str):
            function = script_restrictions.function_of(each)
            yield "restrictions", f"{origin(function)} restricts configurations; write it as an expression"
    if given["verify"] is not None:
        yield (
            "operation",
            (
                f"{origin(given['verify'])} judges outputs; write a `reference:`, or derive: {{right: {{python: "
                "FILE.py:FUNCTION}} and reference: {right: 1}"
            ),
        )
    divisors = (("a grid divisor", each) for each in call.grid_divisors)
    for name, value in (("problem_size", call.problem_size), *divisors):
        if callable(value):
            yield "grid", f"{name} is {origin(value)}; write the blocks as expressions of sizes and parameters"


def _unread(space: Space) -> Iterator[tuple[str, str]]:
    """The parameters that nothing reads, which a space file may not have."""
    code = "\n".join(without_comments(source_text.device(space, path)) for path in space.sources)
    for where, message in macro_checks.unused(space, code):
        yield "parameters", f"{where[-1]}: {message}"


def _with(text: str, key: str, question: str) -> str:
    """The text with a question on the line of `key`, or on one of its own below it if that has a question.

    Without the key, `restrictions:` begins at the end; other questions are those of the title.
    """
    lines = text.splitlines()
    if key == "restrictions" and not any(line.startswith(f"{key}:") for line in lines):
        lines.append(f"{key}:")
    place = next((n for n, line in enumerate(lines) if line.startswith(f"{key}:")), 0)
    if "# ?" in lines[place]:
        last = next((n for n in range(place + 1, len(lines)) if not lines[n].startswith("  # ? ")), len(lines))
        lines.insert(last, f"  # ? {question}")
    else:
        lines[place] += f"  # ? {question}"
    return "\n".join(lines) + "\n"
