"""A fresh node for every test."""

from __future__ import annotations

import pytest
from tests.api_topics.node import OneNode


@pytest.fixture
def node() -> OneNode:
    return OneNode()
