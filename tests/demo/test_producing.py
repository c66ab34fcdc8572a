"""The topics of the demo are created, however wide they are."""

from __future__ import annotations

import pytest
from demo.producing import MOST_IN_A_REQUEST, create_topic

import headgate
from headgate.admin import Admin


@pytest.mark.parametrize("count", [1, MOST_IN_A_REQUEST, MOST_IN_A_REQUEST + 1, 3 * MOST_IN_A_REQUEST])
def test_a_topic_has_as_many_partitions_as_asked_for(count: int) -> None:
    """Also if that is more than one request may create."""
    with headgate.run() as broker:
        create_topic(broker.bootstrap_servers, "gates", count)
        with Admin(broker.bootstrap_servers) as admin:
            topic = admin.describe_topics(["gates"])["gates"]
        assert topic is not None and len(topic.partitions) == count
