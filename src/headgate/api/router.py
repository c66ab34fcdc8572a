"""The router of a node that is alone: every shard is run here.

Handlers ask `node.router` for the owner of a group's shard and hand it their command. Where nodes share out
the shards, another router stands here, whose owners may be elsewhere; nothing else of a handler changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.api.contract import Node, ShardOwner
    from headgate.domain.ids import GroupId


class Here:
    """Answers "here" whatever the group; a `Router`, and the one `ShardOwner` there is."""

    __slots__ = ("_node", "submit")

    def __init__(self, node: Node) -> None:
        self._node = node
        self.submit = node.coordinator.submit
        """See `ShardOwner.submit`."""

    def owner_of(self, group_id: GroupId) -> ShardOwner:
        """This node."""
        return self

    @property
    def node_id(self) -> int:
        """This node's id."""
        return self._node.node_id

    @property
    def host(self) -> str:
        """Where clients connect to this node."""
        return self._node.advertised_host

    @property
    def port(self) -> int:
        """Where clients connect to this node."""
        return self._node.advertised_port
