"""The router of a single node: it runs every shard.

Handlers ask `node.router` for the owner of a group's shard and submit their command to it. With several nodes
another router replaces this one, with owners elsewhere; handlers need no change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.api.contract import Node, ShardOwner
    from headgate.domain.ids import GroupId


class Here:
    """A `Router` that returns this node for every group, and its `ShardOwner`."""

    __slots__ = ("_node", "submit")

    def __init__(self, node: Node) -> None:
        self._node = node
        self.submit = node.coordinator.submit
        """See `ShardOwner.submit`."""

    def owner_of(self, group_id: GroupId) -> ShardOwner:
        """Return this node."""
        return self

    @property
    def node_id(self) -> int:
        """The id of this node."""
        return self._node.node_id

    @property
    def host(self) -> str:
        """Host that clients connect to."""
        return self._node.advertised_host

    @property
    def port(self) -> int:
        """Port that clients connect to."""
        return self._node.advertised_port
