"""Draw docs/states.md, the diagrams of the states of groups and members, from the tables of transitions.

Run it after a change of a table: `python tools/state_diagrams.py`. A test compares the document with them.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from headgate.core.classic import state as classic
from headgate.core.consumer import group, member_state
from headgate.core.share.membership import group as share
from headgate.records import MemberState
from headgate.records.share_batches import DeliveryState

DOCUMENT = Path(__file__).parent.parent / "docs/states.md"
StateT = TypeVar("StateT", bound=Enum)


def document() -> str:
    """Return the text of the document."""
    parts = (
        "# States of groups and members\n",
        "<!-- Written by tools/state_diagrams.py; not to be edited. -->\n",
        "The diagrams come from the tables of transitions in the code.\n",
        "## A classic group\n",
        *_diagram(classic.TRANSITIONS, classic.ClassicState.EMPTY),
        *_meanings(classic.ClassicState),
        "## A member of a consumer group (KIP-848)\n",
        "`core/consumer/reconcile.py` has the conditions of the transitions.\n",
        *_diagram(member_state.TRANSITIONS, MemberState.STABLE),
        *_meanings(MemberState),
        "## A consumer group\n",
        "Its state is derived from its epochs and from its members.\n",
        *_meanings(group.ConsumerState),
        "## A share group (KIP-932)\n",
        *_meanings(share.ShareGroupState),
        "## The delivery of a record to a share group\n",
        "`core/share/partition/acknowledging.py` has the state that each acknowledgement leads to. A",
        "release, the end of the lock and the end of the member make a record available again, until it was",
        "delivered as often as allowed.\n",
        *_meanings(DeliveryState),
    )
    return "\n".join(parts)


def _diagram(transitions: Mapping[StateT, Iterable[StateT]], first: StateT) -> Iterator[str]:
    """Yield the lines of a diagram of GitHub's Markdown."""
    yield "```mermaid\nstateDiagram-v2"
    yield f"    [*] --> {_name(first)}"
    for state, following in transitions.items():
        for other in sorted(following, key=list(transitions).index):
            yield f"    {_name(state)} --> {_name(other)}"
    yield "```\n"


def _meanings(states: type[Enum]) -> Iterator[str]:
    """Yield the lines of a table of the states and their docstrings."""
    (definition,) = ast.parse(inspect.getsource(states)).body
    assert isinstance(definition, ast.ClassDef)
    yield "| state | meaning |\n|---|---|"
    for member, text in pairwise(definition.body):
        if isinstance(member, ast.Assign) and isinstance(text, ast.Expr):
            (name,) = member.targets
            assert isinstance(name, ast.Name)
            yield f"| {_name(states[name.id])} | {' '.join(str(ast.literal_eval(text.value)).split())} |"
    yield ""


def _name(state: Enum) -> str:
    return "".join(word.capitalize() for word in state.name.split("_"))


if __name__ == "__main__":
    DOCUMENT.write_text(document())
