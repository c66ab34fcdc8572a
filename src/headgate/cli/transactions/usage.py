"""The checks of options that belong together, and the error messages for other combinations."""

from __future__ import annotations

from collections.abc import Iterable

from headgate.cli.transactions.options import Abort, Connection, FindHanging
from headgate.cli.usage_problem import UsageProblem, option
from headgate.records.transactions import TransactionState

_OF_A_PRODUCER = ("producer_id", "producer_epoch", "coordinator_epoch")
_TEXTS = ("topic", "transactional_id", "transactional_id_pattern")
_LONGEST_ID_BYTES = 32_767
_STATES = {state.title.lower(): state.title for state in TransactionState}


def states_of(words: Iterable[str]) -> list[str]:
    """Return Kafka's names of states, separated by commas and in any case. Raises `UsageProblem`."""
    names = [name.strip() for word in words for name in word.split(",") if name.strip()]
    for name in names:
        if name.lower() not in _STATES:
            raise UsageProblem(f"--state {name}: choose from {', '.join(_STATES.values())}")
    return list(dict.fromkeys(_STATES[name.lower()] for name in names))


def check_texts(options: Connection) -> None:
    """Raise `UsageProblem` for a text that no request can carry."""
    for name in _TEXTS:
        text = getattr(options, name, None)
        if text is not None:
            _check_text(option(name), text, is_id=name == "transactional_id")


def _check_text(option: str, text: str, *, is_id: bool) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise UsageProblem(f"{option} {text}: not valid UTF-8") from None
    if is_id and not size:
        raise UsageProblem(f"{option}: an id is expected")
    if size > _LONGEST_ID_BYTES:
        raise UsageProblem(f"{option}: at most {_LONGEST_ID_BYTES:,} bytes are expected, not {size:,}")


def check_search(options: FindHanging) -> None:
    """Raise `UsageProblem` for a partition without a topic."""
    if options.partition is not None and options.topic is None:
        raise UsageProblem(f"--partition {options.partition}: --topic is expected with it")


def check_abort(options: Abort) -> None:
    """Raise `UsageProblem` unless the transaction is identified, in one of the two ways."""
    given = [name for name in _OF_A_PRODUCER if getattr(options, name) is not None]
    if options.start_offset is not None and given:
        raise UsageProblem(f"--start-offset and {option(given[0])}: one of them is expected")
    if options.start_offset is None and not given:
        raise UsageProblem(
            "which transaction? --start-offset is expected; or --producer-id, --producer-epoch and "
            "--coordinator-epoch"
        )
    if given and len(given) < len(_OF_A_PRODUCER):
        missing = next(name for name in _OF_A_PRODUCER if name not in given)
        raise UsageProblem(f"{option(missing)} is expected with {option(given[0])}")
