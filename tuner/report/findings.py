"""The findings of a report about a Subject, computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from tuner.classes import dataclass
from tuner.report import bits, contenders, importance, landscape, noise, restrictions
from tuner.report import roofline as rooflines
from tuner.report.words import sentence, spread
from tuner.space.texts import config_text, short_size
from tuner.store.verdicts import RELEVANT, tie_or_noisy
from tuner.version import VERSION

if TYPE_CHECKING:
    from tuner.report.contenders import Contender
    from tuner.report.landscape import Convergence, Distribution, Failure, Neighbour, Slice
    from tuner.report.restrictions import Removals
    from tuner.report.roofline import Roofline
    from tuner.report.subject import Subject
    from tuner.tuning.recordings.recording import Row

BUILD = {  # figures of a build: their names in a recording, and their titles
    "registers": "registers",
    "spills": "spills, B",
    "shared_memory": "shared memory, B",
    "local_memory": "local memory, B",
    "occupancy": "occupancy",
}


@dataclass(frozen=True)
class Findings:
    """The findings; each field has the name of the function that computes it.

    `random_search` is only for recordings, and otherwise empty. `removals` is None if the kernel is unknown here.
    `notes` are remarks for the reader.
    """

    subject: Subject
    contenders: list[Contender]
    roofline: Roofline | None
    convergence: Convergence
    random_search: list[tuple[int, float]]
    distribution: Distribution
    shares: Mapping[str, float]
    neighbours: list[Neighbour]
    slices: list[Slice]
    leaders: list[Row]
    failures: list[Failure]
    removals: Removals | None
    notes: Sequence[str] = field(default_factory=list)

    @staticmethod
    def of(subject: Subject) -> Findings:
        """Compute all findings. Takes a second or two, mostly for the importance of parameters."""
        shares = importance.shares(subject)
        order = [*shares, *(name for name in subject.parameters if name not in shares)]
        found = contenders.contenders(subject)
        around = landscape.neighbours(subject)
        space, scope = subject.space, subject.scope
        return Findings(
            subject=subject,
            contenders=found,
            roofline=rooflines.of(found[0].rates, subject.ceilings),
            convergence=landscape.convergence(subject),
            random_search=landscape.random_search(subject) if subject.trials.origin == "recording" else [],
            distribution=landscape.distribution(subject),
            shares=shares,
            neighbours=around,
            slices=landscape.slices(subject, order),
            leaders=landscape.leaders(subject),
            failures=landscape.failures(subject),
            removals=None if space is None or scope is None else restrictions.removals(space, scope, subject.counted),
            notes=[*_notes(subject), *_faster(subject, around)],
        )

    @property
    def command(self) -> str:
        """The command that last ran the study; if unknown, an equivalent one. For a recording, `tune record`.

        Empty if the problem is unknown.
        """
        return _command(self.subject)

    @property
    def environment(self) -> list[tuple[str, str]]:
        """The conditions of the measurements, as names and texts."""
        subject, record = self.subject, self.subject.record
        trials, total = subject.trials, len(subject.recording.entries)
        rows = [
            ("device", subject.recording.device or "not told"),
            ("kind, architecture", ", ".join(filter(None, (trials.kind, trials.architecture)))),
            ("toolchain", trials.toolchain or (record.toolchain if record else "")),
            ("trials", f"{total:,} in a {trials.origin}, of which {total - len(subject.times):,} failed"),
            ("way of timing", f"protocol {trials.protocol}" if trials.origin == "ledger" else ""),
            ("unlike most", trials.peculiar),
            ("conditions", str(trials.conditions)),
        ]
        if record is not None:
            search = f"{record.strategy}, {record.evaluated:,} of {record.configurations:,} configurations"
            about = f"{record.date}, by tuner {record.version}"
            finals = [
                ("its finals", f"{record.rounds} rounds, spread {record.spread:.1%}"),
                ("clock in its finals", f"{record.clock_mhz:g} MHz" if record.clock_mhz else ""),
                ("held down by", ", ".join(record.throttled)),
            ]
            ours = [
                ("its search", search),
                *finals,
                ("verified", _verified(subject)),
                ("signature", record.signature[:16]),
            ]
            if trials.origin == "recording":  # the record is of another run
                rows += [
                    ("the store's record", f"{about}, of another search: {search}"),
                    *(finals if subject.finals else []),
                ]
            else:
                rows += [("record of", about), *ours]
        ceilings = subject.ceilings
        rows += [
            ("ceilings", f"of {ceilings.date[:10]}, by tune devices --measure" if ceilings else "not measured"),
            ("page made by", f"tuner {VERSION}"),
        ]
        return [(name, text) for name, text in rows if text]

    def build(self, row: Row) -> list[Any]:
        """The figures of a configuration's build, in the order of BUILD; None if unknown."""
        entry = self.subject.entry(row)
        return [entry.extra.get(name) if entry else None for name in BUILD]

    def verdict(self, row: Row) -> str:
        """Why a trial's time is indistinguishable from the best's: by the finals, if it was measured there; empty if it
        is not."""
        finalists = self.subject.finalists
        if row not in finalists or row == self.subject.best:
            return noise.verdict(self.subject, row)
        finalist = finalists[row]
        return tie_or_noisy(finalists[self.subject.best].time_ms, finalist.time_ms) if finalist.tied else ""

    @property
    def ties(self) -> list[Row]:
        """The best, and the configurations that the finals could not tell from it; empty if there are none."""
        tied = [row for row, finalist in self.subject.finalists.items() if finalist.tied]
        return [self.subject.best, *tied] if tied else []

    def to_json(self) -> dict[str, Any]:
        """The findings as JSON data."""
        subject = self.subject
        return {
            "kernel": subject.kernel,
            "problem": subject.problem_text,
            "device": subject.recording.device,
            "from": subject.trials.origin,
            "trials": len(subject.recording.entries),
            "besides_the_search": len(subject.besides),
            "succeeded": len(subject.times),
            "best": subject.config(subject.best),
            "contenders": [_contender(contender) for contender in self.contenders],
            "roofline": self.roofline and {**vars(self.roofline), "attainable": self.roofline.attainable},
            "improvements": [
                {"trial": number, "time_ms": time_ms, "config": subject.config(row)}
                for number, time_ms, row in self.convergence.improvements
            ],
            "distribution": {"bins": self.distribution.bins, "within_5_percent": self.distribution.within},
            "importance": {"method": importance.METHOD, "shares": dict(self.shares)},
            "neighbours": [
                {name: getattr(n, name) for name in ("time_ms", "spread", "verdict", "reason", "after_finals")}
                | {"parameter": n.name, "value": n.value}
                for n in self.neighbours
            ],
            "leaders": [
                {
                    "config": subject.config(row),
                    "time_ms": subject.times[row],
                    "spread": subject.timings[row].spread,
                    "verdict": self.verdict(row),
                    "finals_ms": subject.finalists[row].time_ms if row in subject.finalists else None,
                    **dict(zip(BUILD, self.build(row), strict=True)),
                }
                for row in self.leaders
            ],
            "ties": [subject.config(row) for row in self.ties],
            "failures": [
                {"reason": f.reason, "count": f.count, "example": subject.config(f.example), "log": f.log}
                for f in self.failures
            ],
            "restrictions": self.removals
            and {
                "combinations": self.removals.combinations,
                "examined": self.removals.examined,
                "valid": self.removals.valid,
                "valid_is_counted": self.removals.known is not None,
                "removed": [
                    {"that": r.restriction.that.text, "share": r.share, "alone": r.alone} for r in self.removals.rows
                ],
            },
            "environment": dict(self.environment),
            "command": self.command,
            "notes": list(self.notes),
        }


def _command(subject: Subject) -> str:
    commands = subject.trials.commands
    if commands:
        return commands[-1]
    problem = subject.problem
    if problem is None:
        return ""
    is_recording = subject.trials.origin == "recording"
    record = None if is_recording else subject.record
    kind = subject.trials.kind or "cuda"
    from tuner.tuning.request import TuningRequest

    request = TuningRequest(
        problem.space.name,
        short_size(problem.sizes),
        kind,
        {name: value for name, value in problem.options.items() if value != problem.space.operation.options[name]},
        problem.types,
        record.strategy if record else None,
        str(record.evaluated) if record else None,
    )
    command = request.command(problem.space.name, kind)
    return f"tune record{command.removeprefix('tune')}" if is_recording else command


def _faster(subject: Subject, neighbours: Sequence[Neighbour]) -> list[str]:
    """The advice about neighbours that are faster than the best; empty if there are none."""
    faster = landscape.faster_neighbours(subject, neighbours)
    if not faster:
        return []
    command = " ".join(word for word in _command(subject).split(" ") if word != "--fresh")
    named = ", ".join(f"{n.name} = {n.value} at {n.time_ms:.4g} ms{spread(n.spread)}" for n in faster)
    return [
        f"Faster than the best by more than the noise, and measured after its finals: {named}. Run `{command}` for new "
        "finals with them."
    ]


def _contender(contender: Contender) -> dict[str, Any]:
    known = vars(contender.rates) if contender.rates else {}
    plain = {name: value for name, value in vars(contender).items() if name != "rates"}
    return {**plain, **known}


def _verified(subject: Subject) -> str:
    record = subject.record
    if record is None or not record.is_verified:
        return record.doubt if record else ""
    error = f", largest error {record.error:.2g} of {record.bound:.2g} allowed" if record.bound else ""
    runs = f"; {record.compared_runs} runs of the best compared" if record.compared_runs else ""
    return f"on {record.input_sets} sets of inputs against {record.verified or 'its reference'}{error}{runs}"


def _notes(subject: Subject) -> list[str]:
    notes = []
    if subject.trials.origin == "recording":
        notes.append("These trials are a recording of all or part of a space. Their order is not that of a search.")
    if subject.trials.origin == "record":
        notes.append(
            "There is no ledger here. The trials are only the best and the runners-up of the store's record, too few "
            "for convergence, distribution and importance."
        )
    if subject.trials.peculiar:
        notes.append(f"The trials were not measured as usual, for time with warm caches: {subject.trials.peculiar}.")
    if subject.recording.is_unverified:
        notes.append("No output was compared with a reference: the results are unverified.")
    finals = subject.finals
    if finals is not None:
        notes += [sentence(text) for text in finals.conclusions]
        searched = subject.timings[subject.best]
        if abs(finals.time_ms / searched.time_ms - 1) > RELEVANT and subject.trials.origin != "record":
            notes.append(
                f"Figures over many trials use the times of the {subject.source}, where the best took "
                f"{searched.time_ms:.4g} ms{spread(searched.spread)}."
            )
    elif subject.record is not None:
        notes.append(
            f"The store's best is not among these trials: `{config_text(subject.record.config)}` at "
            f"{subject.record.time_ms:.4g} ms. Another search found it."
        )
    notes += bits.sentences(subject)
    wide = noise.typical_spread(subject)
    if wide is not None and wide > noise.WIDE:
        notes.append(
            f"The times of half of the trials spread by {wide:.0%} or more: either other programs used the device, or "
            "the kernel itself takes longer in some runs. A smaller difference between two trials says little, and the "
            "smallest of many times is partly luck."
        )
    return notes
