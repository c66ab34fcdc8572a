"""kafkajs, through a Node process that does one call for each line of JSON (node/agent.js)."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.compat.support.driver import (
    ANSWER_TIMEOUT_S,
    Can,
    Committed,
    Driver,
    Group,
    Received,
    Refused,
    Sent,
)

NODE = Path(__file__).resolve().parent.parent / "node"
PACKAGE = NODE / "node_modules" / "kafkajs" / "package.json"


def installed_version() -> str:
    """The version of kafkajs that npm has put beside agent.js."""
    return str(json.loads(PACKAGE.read_text())["version"]) if PACKAGE.exists() else "not installed"


# It knows neither static membership nor a consumer without a group, and has no call to delete offsets, to
# commit metadata from outside a group, or to list some groups only.
_BEYOND_IT = {Can.DELETE_OFFSETS, Can.STATIC, Can.ASSIGN, Can.COMMIT_METADATA, Can.FILTER_GROUPS}


class KafkaJs(Driver):
    """kafkajs."""

    name = "kafkajs"
    can = frozenset(Can) - _BEYOND_IT

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.version = installed_version()
        self._agent = subprocess.Popen(
            ["node", str(NODE / "agent.js"), bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        assert self._answer() == {"ready": True}

    def close(self) -> None:
        assert self._agent.stdin is not None and self._agent.stdout is not None
        self._agent.stdin.close()
        try:
            self._agent.wait(5)
        except subprocess.TimeoutExpired:
            self._agent.kill()
            self._agent.wait()
        self._agent.stdout.close()

    def brokers(self) -> set[str]:
        return set(self._call("brokers"))

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self._call("createTopic", topic=name, partitions=partitions, configs=dict(configs or {}))

    def topics(self) -> set[str]:
        return set(self._call("listTopics"))

    def partition_count(self, topic: str) -> int:
        return int(self._call("partitionCount", topic=topic))

    def delete_topic(self, topic: str) -> None:
        self._call("deleteTopic", topic=topic)

    def add_partitions(self, topic: str, total: int) -> None:
        self._call("addPartitions", topic=topic, total=total)

    def topic_config(self, topic: str) -> dict[str, str]:
        return dict(self._call("topicConfig", topic=topic))

    def set_topic_config(self, topic: str, name: str, value: str) -> None:
        self._call("setTopicConfig", topic=topic, name=name, value=value)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self._call("deleteRecords", topic=topic, partition=partition, before=before)

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        offsets = self._call("offsets", topic=topic)
        (found,) = [one for one in offsets if one["partition"] == partition]
        return found["low"], found["high"]

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        return int(self._call("offsetAt", topic=topic, partition=partition, timestamp=timestamp_ms))

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", idempotent: bool = False
    ) -> None:
        plain = [asdict(record) for record in records]
        self._call("produce", topic=topic, codec=codec, idempotent=idempotent, records=plain)

    def consume(self, topic: str, count: int) -> list[Received]:
        group = f"kafkajs-reads-{uuid.uuid4()}"
        timeout_ms = ANSWER_TIMEOUT_S * 1000
        read = self._call("consume", topic=topic, group=group, count=count, seek=None, timeout_ms=timeout_ms)
        return [Received(**{**one, "headers": tuple((n, v) for n, v in one["headers"])}) for one in read]

    def commit(self, group: str, topic: str, offsets: Mapping[int, Committed]) -> None:
        assert not any(one.metadata for one in offsets.values())
        plain = [(partition, one.offset) for partition, one in offsets.items()]
        self._call("setOffsets", group=group, topic=topic, offsets=plain)

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> dict[int, Committed | None]:
        found = {
            p: (offset, metadata) for p, offset, metadata in self._call("committed", group=group, topic=topic)
        }
        return {
            partition: Committed(found[partition][0], found[partition][1] or "")
            if partition in found and found[partition][0] >= 0
            else None
            for partition in partitions
        }

    def groups(self) -> set[str]:
        return set(self._call("listGroups"))

    def describe_group(self, group: str) -> Group:
        described = self._call("describeGroup", group=group)
        return Group(described["state"], described["protocol"], tuple(described["members"]))

    def delete_group(self, group: str) -> None:
        self._call("deleteGroup", group=group)

    def _call(self, call: str, /, **arguments: Any) -> Any:
        assert self._agent.stdin is not None
        self._agent.stdin.write(json.dumps({"call": call, "args": arguments}) + "\n")
        self._agent.stdin.flush()
        answer = self._answer()
        if "error" in answer:
            raise Refused(answer["code"], answer["error"])
        return answer["result"]

    def _answer(self) -> Any:
        with contextlib.suppress(queue.Empty):
            return json.loads(self._answers.get(timeout=ANSWER_TIMEOUT_S * 2))
        raise AssertionError(f"kafkajs gave no answer within {ANSWER_TIMEOUT_S * 2:g} s")

    def _listen(self) -> None:
        assert self._agent.stdout is not None
        with contextlib.suppress(ValueError):  # closed while it was read
            for line in self._agent.stdout:
                self._answers.put(line)
