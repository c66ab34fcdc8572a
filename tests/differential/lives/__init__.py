"""Random lives, by what they are about: a seed draws requests, which both brokers get.

Scenarios say what somebody thought of. A life finds what nobody did: most of its requests are such as clients
send, some are odd, and each answer is compared. It decides what comes next from the answers, so two brokers
that answer alike are asked alike.
"""

from __future__ import annotations

from tests.differential.lives.life import Life
from tests.differential.lives.offsets import OffsetsLife
from tests.differential.lives.transactions import TransactionsLife
from tests.differential.lives.wide import WideLife

LIVES: dict[str, type[Life]] = {
    "offsets": OffsetsLife,
    "transactions": TransactionsLife,
    "wide": WideLife,
}
