"""The scenarios, by name; a name is the function's, in the words of a topic's or a group's name.

A scenario is a public function of a module here. It asks what it likes (`ask(commit(...))`), members who wait
for each other on connections of their own (`on`), and may use what it is answered. Every answer is compared,
so it must depend on nothing but the questions: what a broker gets round to by itself is awaited
(`ask.until`), and ids that decide anything are made up by the script.
"""

from __future__ import annotations

from types import ModuleType

from tests.differential.scenarios import (
    brokers,
    classic,
    configs,
    consumer_groups,
    consumer_members,
    epochs,
    groups,
    migration,
    mixed_groups,
    offsets,
    records,
    share_acknowledgements,
    share_delivery,
    share_groups,
    share_members,
    share_offsets,
    share_sessions,
    topic_ids,
    topics,
    transactions,
    transactions_batches,
    transactions_markers,
    transactions_members,
    transactions_offsets,
    transactions_records,
)
from tests.differential.script import Scenario, Script


def _scenarios_of(module: ModuleType) -> dict[str, Scenario]:
    room = module.__name__.rpartition(".")[2].replace("_", "-")
    return {
        f"{room}-{name.replace('_', '-')}": function
        for name, function in vars(module).items()
        if callable(function)
        and getattr(function, "__module__", None) == module.__name__
        and not name.startswith("_")
    }


MODULES = (
    offsets,
    classic,
    consumer_groups,
    consumer_members,
    epochs,
    groups,
    migration,
    mixed_groups,
    topics,
    records,
    share_groups,
    share_members,
    share_sessions,
    share_delivery,
    share_acknowledgements,
    share_offsets,
    transactions,
    transactions_batches,
    transactions_markers,
    transactions_members,
    transactions_offsets,
    transactions_records,
    configs,
    topic_ids,
    brokers,
)

SCENARIOS: dict[str, Scenario] = {
    name: scenario for module in MODULES for name, scenario in _scenarios_of(module).items()
}

__all__ = ["SCENARIOS", "Script"]
