"""What a message of an error advises to do."""

from __future__ import annotations

from headgate.cli.advice import in_words
from headgate.client.errors import VersionNotSupported


def test_a_cluster_without_pauses_is_told_how_offsets_are_set_there() -> None:
    """`--rewind` of a Kafka cluster: its members must stop, and then another command does it."""
    problem = VersionNotSupported(
        "kafka-1:9092 does not support ListPausedPartitions, which only Headgate has"
    )
    advice = "stop its members, then set offsets with `headgate consumer-groups --reset-offsets`"
    assert in_words(problem, "consumer-groups") == f"{problem}; {advice}"
    assert in_words(VersionNotSupported("kafka-1:9092 does not support Fetch")).endswith("support Fetch")
