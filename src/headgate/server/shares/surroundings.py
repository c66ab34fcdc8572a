"""What share-partitions need of their node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from headgate.api.contract import Durability, RequestSteps, Router
    from headgate.domain.ids import Millis
    from headgate.server.request_work import RequestWork
    from headgate.topics.topics import Topics


class Surroundings(Protocol):
    """The node, as share-partitions see it."""

    topics: Topics

    router: Router

    @property
    def durability(self) -> Durability:
        """Makes logs durable."""
        ...

    @property
    def request_work(self) -> RequestWork:
        """Runs long work in slices and in threads."""
        ...

    def run_in_background(self, name: str, steps: RequestSteps[Any]) -> None:
        """Run steps that no request waits for; `name` is logged if they fail."""
        ...

    @property
    def share_state(self) -> ShareStateShards:
        """The share coordinator."""
        ...

    def steady_time(self) -> Millis:
        """Return the steady time in ms."""
        ...

    def system_time(self) -> Millis:
        """Return the system time in ms."""
        ...

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> Callable[[], None]:
        """Run `action` after `delay_ms` unless the returned function is called before."""
        ...

    def soon(self, action: Callable[[], None]) -> None:
        """Run `action` in one of the next iterations of the loop."""
        ...


class ShareStateShards(Protocol):
    """The shards of the share coordinator."""

    def submit(self, key: str, command: Any, on_reply: Callable[[Any], None]) -> None:
        """Submit a command; `on_reply` gets its result, or a retriable `ErrorCode`."""
        ...
