"""Random ids in Kafka's format."""

from __future__ import annotations

import base64
import re
import uuid

import pytest

from headgate.server.identity import random_id


def test_a_random_id_is_a_uuid_in_22_characters() -> None:
    """Kafka's `Uuid` prints and parses this format."""
    text = random_id()
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", text)
    assert len(base64.urlsafe_b64decode(text + "==")) == 16
    assert random_id() != text


def test_a_random_id_does_not_look_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that begins with a dash is skipped: Kafka's tools would parse it as an option."""
    made = iter([uuid.UUID(int=0b111110 << 122), uuid.UUID(int=7)])
    monkeypatch.setattr(uuid, "uuid4", lambda: next(made))
    assert random_id() == "AAAAAAAAAAAAAAAAAAAABw"
