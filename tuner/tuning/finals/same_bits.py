"""`--same-bits-as`: only configurations with the same bits as the default, the record, or another configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.classes import dataclass
from tuner.errors import OptionError
from tuner.space.config import Config, config_key
from tuner.space.texts import config_text
from tuner.space.values import bit_classes
from tuner.space.values.bit_classes import DEFAULT, RECORD

if TYPE_CHECKING:
    from tuner.space.config import Value
    from tuner.space.model import Space
    from tuner.space.scope import Scope
    from tuner.space.values.bit_classes import Bits
    from tuner.store.record import Record
    from tuner.tuning.ledger.ledger import Ledger
    from tuner.tuning.ledger.trial import Trial

OPTION = "same-bits-as"


@dataclass(frozen=True)
class SameBits:
    """The restriction, by the `name` that the user gave it.

    `config` is the configuration whose bits are asked for, `bits` those that a record has of it; both are from earlier
    runs. Those of this run count, too.
    """

    name: str
    config: Config
    bits: Bits

    @staticmethod
    def of(name: str, space: Space, scope: Scope, default: Config, record: Record | None) -> SameBits:
        """The restriction for a problem. `default` is the space's, and `record` that of the problem in the store, if
        there is one.

        Raises OptionError if there is no reference, if `name` asks for a record that is missing or has no bits, or if
        it is no configuration.
        """
        if space.operation.reference.kind == "none":
            raise OptionError(
                f"{name}: the space has `reference: none`, and only outputs that are compared with a reference have "
                "digests; name a reference, or leave this restriction out",
                OPTION,
            )
        if name == DEFAULT:
            return SameBits(name, default, {})
        if name != RECORD:
            config = parsed(name, space, scope, default)
            return SameBits(config_text(config), config, {})
        if record is None:
            raise OptionError(
                f"record: the store has no record of {space.name} for this problem, device and version of the kernel; "
                "tune it without this restriction first, or write default or a configuration",
                OPTION,
            )
        if not record.bits:
            raise OptionError(
                f"record: the record of {space.name} is of an earlier version of tuner, which took no digests of "
                "outputs; tune it without this restriction first",
                OPTION,
            )
        if bit_classes.do_vary(record.bits):
            raise _varies(RECORD, record.config)
        return SameBits(name, record.config, record.bits)

    @property
    def missing(self) -> str:
        """The message that no configuration has the bits that are asked for."""
        return (
            f"--{OPTION} {self.name}: no right configuration that was measured has the bits of "
            f"{config_text(self.config)}; measure more of them, or leave the option out"
        )

    def target(self, ledger: Ledger) -> Trial | None:
        """The trial of the configuration whose bits are asked for.

        None if it has none, and a record has its bits. Raises OptionError if nothing has its bits, or if they vary.
        """
        key = config_key(self.config)
        trial = next((trial for trial in ledger.trials if config_key(trial.config) == key), None)
        if trial is not None and bit_classes.do_vary(trial.outcome.bits):
            raise _varies(self.name, self.config)
        if not self.bits and (trial is None or not trial.outcome.bits):
            failed = trial is not None and trial.outcome.failure
            why = f"it failed: {failed}" if failed else "it was not measured; add to the budget, or ask for a fresh run"
            raise OptionError(f"{self.name}: {config_text(self.config)} has no outputs to compare with: {why}", OPTION)
        return trial

    def admits(self, bits: Bits, target: Bits) -> bool:
        """Whether a configuration has the same bits as far as known; `target` are those asked for, of this run.

        Raises OptionError if these vary, which may show only in many runs.
        """
        wanted = bit_classes.joined([self.bits, target])
        if bit_classes.do_vary(wanted):
            raise _varies(self.name, self.config)
        return bit_classes.are_same(bits, wanted) is True


def parsed(text: str, space: Space, scope: Scope, example: Config) -> Config:
    """The configuration in `block_size_x=32 tile=4`, with spaces or commas. Raises OptionError if it is not valid; its
    message shows the configuration `example`."""
    words = [word.partition("=") for word in text.replace(",", " ").split()]
    given = {name: value for name, _, value in words}
    config: dict[str, Value] = {}
    for name, values in space.parameters.items():
        found = [value for value in values if str(value) == given.get(name)]
        if name not in given and len(values) == 1:
            found = list(values)
        if not found:
            asked = f"{name}={given[name]}" if name in given else f"no {name}"
            allowed = ", ".join(map(str, values[:12])) + (", ..." if len(values) > 12 else "")
            raise OptionError(
                f"{text!r}: {asked}; write default, record, or a value for each parameter, as in "
                f"'{config_text(example)}'; the values of {name} are {allowed}",
                OPTION,
            )
        config[name] = found[0]
    if unknown := [name for name in given if name not in config]:
        raise OptionError(
            f"{text!r}: {unknown[0]} is no parameter of {space.name}; its parameters are {', '.join(space.parameters)}",
            OPTION,
        )
    if not space.valid(config, scope):
        raise OptionError(f"{text!r}: this configuration is not valid at this size on this device", OPTION)
    return config


def _varies(name: str, config: Mapping[str, Value]) -> OptionError:
    return OptionError(
        f"{name}: the bits of {config_text(config)} differ from run to run, so no configuration has the same; name a "
        "configuration that does not add in the order in which threads finish",
        OPTION,
    )
