"""Questions about many groups or partitions: many of them in each request, and the nodes side by side.

Rules:

* A thread asks one node, one request after another, with the only connection to it.
* What one node does not answer is an error for its own keys. The other answers are kept.
* Nodes that are away are waited for as long as one call may take, once for all questions of a survey. A node
  that did not answer in time is not asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from headgate.client.cluster import LATEST, RETRY_DELAY_S, Address, Cluster, Located, is_passing
from headgate.client.connection import Connection
from headgate.client.errors import BadResponse, ClientError, RequestRefused, RequestTimedOut
from headgate.domain.errors import ErrorCode
from headgate.domain.ids import GroupId, TopicName, TopicPartition
from headgate.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

KeyT = TypeVar("KeyT")
AnswerT = TypeVar("AnswerT")

FIRST_KEYS = 100
MOST_KEYS = 1_000
"""How many keys the first request to a node has, and how many each has at most."""
MOST_ITEMS = 100_000
"""How many items a response should have at most: the next request has fewer keys if one had more."""
MOST_THREADS = 16

Answers = dict[KeyT, AnswerT | ClientError]
"""The answer for each key, or why there is none."""


@dataclass(frozen=True, slots=True)
class Question(Generic[KeyT, AnswerT]):
    """A question about keys: where to ask it, and how."""

    locate: Callable[[list[KeyT]], Located[KeyT]]
    ask: Callable[[Connection, list[KeyT]], Mapping[KeyT, AnswerT | ClientError]]
    """Send one request and return the answers. Errors of the connection are raised."""
    items_in: Callable[[Any], int] = lambda answer: 1
    """The size of an answer: offsets, partitions, ..."""
    first_keys: int = FIRST_KEYS
    most_keys: int = MOST_KEYS


@dataclass(slots=True)
class Survey:
    """Asks the nodes of a cluster. One survey is for questions that belong together."""

    cluster: Cluster
    _patience_s: float = field(init=False)
    """How long nodes that are away are still waited for."""
    _silent: dict[Address, ClientError] = field(init=False, default_factory=dict)
    """Nodes that did not answer in time."""

    def __post_init__(self) -> None:
        self._patience_s = self.cluster.timeout_s

    def of_groups(
        self,
        group_ids: Iterable[GroupId],
        ask: Callable[[Connection, list[GroupId]], Mapping[GroupId, AnswerT | ClientError]],
        items_in: Callable[[Any], int] = lambda answer: 1,
    ) -> Answers[GroupId, AnswerT]:
        """Ask the coordinators of groups."""
        return self.answers(group_ids, Question(self.cluster.locate_coordinators, ask, items_in))

    def of_nodes(self, ask: Callable[[Connection], AnswerT]) -> Answers[Address, AnswerT]:
        """Ask every node of the cluster."""
        brokers = self.cluster.metadata([]).brokers
        addresses = [(broker.host, broker.port) for broker in brokers]

        def ask_one(node: Connection, keys: list[Address]) -> Mapping[Address, AnswerT | ClientError]:
            return dict.fromkeys(keys, ask(node))

        return self.answers(addresses, Question(_itself, ask_one))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, int]:
        """Return the ends of logs. Partitions that do not exist are omitted."""
        found = self.offsets_at(partitions, LATEST)
        return {where: end for where, end in found.items() if not _does_not_exist(end)}

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> Answers[TopicPartition, int]:
        """Return the offset of the first record with at least this timestamp, as `Cluster.list_offsets`."""
        return self.answers(
            sorted(partitions),
            Question(
                self.cluster.locate_leaders,
                partial(self._ask_offsets, timestamp),
                # After a crash a broker checks each log before it tells its end: 2 ms or more for each.
                first_keys=MOST_KEYS,
            ),
        )

    def answers(self, keys: Iterable[KeyT], question: Question[KeyT, AnswerT]) -> Answers[KeyT, AnswerT]:
        """Ask a question about keys until all are answered, or the nodes that are missing stay away."""
        wanted = list(dict.fromkeys(keys))
        found: Answers[KeyT, AnswerT] = {}
        left, is_repeated = wanted, False
        while left:
            begun = time.monotonic()
            answers = self._round(left, question, is_repeated=is_repeated)
            found.update(answers)
            left = [key for key in left if _may_pass(found[key])]
            if is_repeated:
                self._patience_s -= time.monotonic() - begun
            if left:
                if self._patience_s < RETRY_DELAY_S:
                    break
                time.sleep(RETRY_DELAY_S)
                self._patience_s -= RETRY_DELAY_S
                self.cluster.forget()
            is_repeated = True
        return {key: found[key] for key in wanted}

    def _round(
        self, keys: list[KeyT], question: Question[KeyT, AnswerT], *, is_repeated: bool
    ) -> Answers[KeyT, AnswerT]:
        try:
            located = question.locate(keys)
        except ClientError as error:
            if not is_repeated:
                raise
            return dict.fromkeys(keys, error)
        answers = self._ask_nodes(located.by_node, question)
        answers.update(located.failed)
        return answers

    def _ask_nodes(
        self, by_node: Mapping[Address, list[KeyT]], question: Question[KeyT, AnswerT]
    ) -> Answers[KeyT, AnswerT]:
        parts: list[Answers[KeyT, AnswerT]] = [{} for _ in by_node]
        tasks = [
            partial(self._ask_node, address, keys, question, part)
            for (address, keys), part in zip(by_node.items(), parts, strict=True)
        ]
        try:
            _side_by_side(tasks)
        except BaseException:
            self.cluster.interrupt()
            raise
        return {key: answer for part in parts for key, answer in part.items()}

    def _ask_node(
        self,
        address: Address,
        keys: list[KeyT],
        question: Question[KeyT, AnswerT],
        answers: Answers[KeyT, AnswerT],
    ) -> None:
        """Ask one node about all its keys. After an error of the connection the others get the error."""
        at, size = 0, question.first_keys
        try:
            if address in self._silent:
                raise self._silent[address]
            node = self.cluster.node_at(address)
            while at < len(keys):
                some = keys[at : at + size]
                got = question.ask(node, some)
                answers.update((key, got[key] if key in got else _lacking(node, key)) for key in some)
                items = sum(question.items_in(answers[key]) for key in some)
                fitting = len(some) * MOST_ITEMS // max(1, items)
                at += len(some)
                size = max(1, min(question.most_keys, 2 * size, fitting))
        except ClientError as error:
            if isinstance(error, RequestTimedOut):
                self._silent[address] = error
            answers.update(dict.fromkeys(keys[at:], error))

    def _ask_offsets(
        self, timestamp: int, leader: Connection, partitions: list[TopicPartition]
    ) -> Mapping[TopicPartition, int | ClientError]:
        topics: dict[TopicName, list[ListOffsetsPartition]] = {}
        for topic, partition in partitions:
            wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
            topics.setdefault(topic, []).append(wanted)
        message = ListOffsetsRequest(
            replica_id=-1,
            timeout_ms=round(self.cluster.timeout_s * 1000),
            topics=[ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()],
        )
        found: dict[TopicPartition, int | ClientError] = {}
        for answer in leader.request(message).topics:
            for one in answer.partitions:
                where = TopicPartition(TopicName(answer.name), one.partition_index)
                refused = RequestRefused(f"offsets of {where}", one.error_code) if one.error_code else None
                found[where] = refused or one.offset
        return found


def _itself(addresses: list[Address]) -> Located[Address]:
    return Located({address: [address] for address in addresses}, {})


def _may_pass(answer: object) -> bool:
    return isinstance(answer, ClientError) and is_passing(answer)


def _does_not_exist(answer: object) -> bool:
    return isinstance(answer, RequestRefused) and answer.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _lacking(node: Connection, key: object) -> ClientError:
    return BadResponse(f"{node.address} does not answer for {key}")


def _side_by_side(tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks, each in a thread if there are several. An exception of one is raised here."""
    raised: list[BaseException] = []

    def work(own: Sequence[Callable[[], None]]) -> None:
        try:
            for task in own:
                task()
        except BaseException as error:
            raised.append(error)

    threads = [
        threading.Thread(target=work, args=(tasks[first::MOST_THREADS],), name="headgate-ask", daemon=True)
        for first in range(1, min(len(tasks), MOST_THREADS))
    ]
    for thread in threads:
        thread.start()
    for task in tasks[::MOST_THREADS]:
        task()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
