"""Settings of a broker, as it reports them."""

from __future__ import annotations

from headgate.client.cluster import Cluster
from headgate.client.errors import check
from headgate.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

_BROKER = 4


def broker_setting(cluster: Cluster, name: str) -> str | None:
    """Return the value of a setting, of any broker of the cluster; None if it has no such setting."""

    def attempt() -> str | None:
        broker = min(each.node_id for each in cluster.metadata([]).brokers)
        resource = DescribeConfigsResource(
            resource_type=_BROKER, resource_name=str(broker), configuration_keys=[name]
        )
        response = cluster.any_node().request(DescribeConfigsRequest(resources=[resource]))
        (result,) = response.results
        check(f"the settings of broker {broker}", result.error_code, result.error_message)
        return next((config.value for config in result.configs if config.name == name), None)

    return cluster.retrying(attempt)
