"""What a broker says of itself: the APIs it offers, its cluster, the resources that have settings."""

from __future__ import annotations

from tests.differential.requests import GROUP, SET, alter_configs
from tests.differential.script import Script
from tests.differential.wire import Request


def apis_and_their_versions(ask: Script) -> None:
    """In each version of the question; an API that both offer is offered in the same versions."""
    for version in range(5):
        values = {"client_software_name": "script", "client_software_version": "1"}
        ask(Request("api_versions", version, values))


def a_client_that_does_not_say_its_name(ask: Script) -> None:
    """Names and versions that no client may have."""
    for name, version in (
        ("", "1"),
        ("script", ""),
        ("a b", "1"),
        ("-x", "1"),
        ("x-", "1"),
        ("x.y-z", "1.0-SNAPSHOT"),
    ):
        values = {"client_software_name": name, "client_software_version": version}
        ask(Request("api_versions", 3, values))


def the_cluster(ask: Script) -> None:
    """One broker, which is its own controller."""
    for version in range(3):
        for endpoint_type in (1, 2, 3):
            values = {"include_cluster_authorized_operations": False, "endpoint_type": endpoint_type}
            ask(Request("describe_cluster", version, values | {"include_fenced_brokers": False}))
    ask(Request("describe_cluster", 1, {"include_cluster_authorized_operations": True, "endpoint_type": 1}))


def resources_that_have_settings(ask: Script) -> None:
    """Groups are among them from the moment on that they have settings of their own."""
    ask(alter_configs(GROUP, ask.group, {"consumer.heartbeat.interval.ms": (SET, "7000")}))

    def names_it(answer: dict[str, object]) -> bool:
        return ask.group in str(answer)

    request = Request("list_config_resources", 1, {"resource_types": [GROUP]})
    ask.wait_until(request, names_it)
    ask.only(request, "config_resources", "resource_name", [ask.group])
    ask(Request("list_config_resources", 0, {}))
    ask(Request("list_config_resources", 1, {"resource_types": [99]}))
