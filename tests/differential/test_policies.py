"""Two brokers for each migration policy but the default one: the same story but for what is accepted."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.differential.accepted import ACCEPTED
from tests.differential.comparing import compare
from tests.differential.conftest import SETTINGS, Run, start_kafka
from tests.differential.policies import POLICY_SCENARIOS
from tests.differential.script import Side

import headgate

POLICIES = ("upgrade", "downgrade", "disabled")


@pytest.mark.parametrize("policy", POLICIES)
def test_headgate_migrates_as_kafka_does(policy: str, tmp_path: Path) -> None:
    """Step by step, field by field."""
    settings = SETTINGS | {"group.consumer.migration.policy": policy}
    with ExitStack() as stack:
        kafka = start_kafka(stack, settings)
        broker = stack.enter_context(headgate.run(settings, data_dir=tmp_path / "data"))
        run = Run(kafka, Side("headgate", broker.host, broker.port))
        for scenario in POLICY_SCENARIOS:
            name = f"policy-{policy}-{scenario.__name__.replace('_', '-')}"
            found = compare(run, name, scenario, ACCEPTED)
            assert not found, "\n".join(["the stories differ:", *found])
