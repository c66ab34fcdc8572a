"""Combine effects: a step often leads to another, and both have records and replies."""

from __future__ import annotations

from headgate.core.contract import Effects, Reply, Token
from headgate.records import Change

GroupEffects = Effects[Change]

NOTHING: GroupEffects = Effects()


def answer(token: Token, result: object) -> GroupEffects:
    """Return effects with one reply and no record."""
    return Effects((), (Reply(token, result),))


def together(*effects: GroupEffects) -> GroupEffects:
    """Return all records and all replies, in order, of effects that are part of no transaction."""
    wanted = [one for one in effects if one.records or one.replies]
    if not wanted:
        return NOTHING
    if len(wanted) == 1:
        return wanted[0]
    assert all(one.transaction is None for one in wanted), "records of a transaction go alone"
    return Effects(
        [record for one in wanted for record in one.records],
        [reply for one in wanted for reply in one.replies],
    )
