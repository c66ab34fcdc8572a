"""Where Headgate answers otherwise than Apache Kafka, and means to; `docs/differences.md` says why.

A difference is accepted if scenario, step and path match (`*` stands for anything), both values are those
that stand here, and the answer it is in is such as is said. What stands here and is seen no more has to go:
the tests say so. An entry covers what was seen and no more: whatever else differs is a mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from tests.differential.normal import ABSENT
from tests.differential.record_requests import NOW_MS
from tests.log.support import headers_of

ANY = object()
INVALID_REQUEST = 42
CONTROL = 0x20
"""The bit of a batch's attributes."""
_NEGATIVE = "A start offset is not below -1"
_NAMED_FAULT = "A malformed request gets the error that names its fault"
_RAISES_EPOCH = "Altered start offsets raise the group epoch"


def _anything(_answer: Any) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Accepted:
    """One difference, or many of one kind."""

    scenario: str
    step: str
    path: str
    kafka: Any
    headgate: Any
    difference: str
    """Its title in `docs/differences.md`."""
    where: Callable[[Any], bool] = _anything
    """Of the whole answer of Headgate's whether the difference may be in it."""

    def covers(self, scenario: str, step: str, difference: tuple[str, Any, Any], answer: Any) -> bool:
        """Whether it is this one: a path, Kafka's value there, and ours, in an answer of ours."""
        path, kafka, headgate = difference
        return (
            fnmatchcase(scenario, self.scenario)
            and fnmatchcase(step, self.step)
            and fnmatchcase(path, self.path)
            and (self.kafka is ANY or self.kafka == kafka)
            and (self.headgate is ANY or self.headgate == headgate)
            and self.where(answer)
        )


def _nobody_is_in(answer: Any) -> bool:
    return all(group["group_state"] == "Empty" for group in answer["groups"])


def _has_whole_batches(answer: Any) -> bool:
    (topic,) = answer["responses"]
    (partition,) = topic["partitions"]
    return bool(headers_of(partition["records"]))


def _answers_partitions(answer: Any, taken: int) -> bool:
    """Whether there are three topics, so many partitions of theirs taken, and the others unknown."""
    codes = [one["error_code"] for topic in answer["topics"] for one in topic["partitions"]]
    refused = [code for code in codes if code != "none"]
    return (
        len(answer["topics"]) == 3
        and len(codes) - len(refused) == taken
        and set(refused) <= {"unknown_topic_or_partition", "unknown_topic_id"}
    )


def _answers_no_partition(answer: Any) -> bool:
    (transaction,) = answer["results_by_transaction"]
    return not any(topic["results_by_partition"] for topic in transaction["topic_results"])


def _tells_aborted_transactions_of_its_batches(answer: Any) -> bool:
    """Whether each one that is told begins in what is returned."""
    (topic,) = answer["responses"]
    (partition,) = topic["partitions"]
    if isinstance(partition["records"], bytes):
        return not partition["aborted_transactions"]
    last = max(batch["base_offset"] for batch in partition["records"])
    return all(one["first_offset"] <= last for one in partition["aborted_transactions"])


def _describes_one_group(answer: Any) -> bool:
    return len(answer["groups"]) == 1


def _refuses_a_request(answer: Any) -> bool:
    """Whether an acknowledgement is refused with INVALID_REQUEST."""
    return any(
        "invalid_request" in (one["error_code"], one.get("acknowledge_error_code"))
        or one.get("acknowledge_error_code") == INVALID_REQUEST
        for topic in answer["responses"]
        for one in topic["partitions"]
    )


def _acquires_no_marker(answer: Any) -> bool:
    """Whether no control batch lies in an acquired range; kio reads batches of named producers as fields."""
    for topic in answer["responses"]:
        for one in topic["partitions"]:
            batches = one["records"] if isinstance(one["records"], list) else []
            markers = [batch["base_offset"] for batch in batches if batch["attributes"] & CONTROL]
            ranges = [(each["first_offset"], each["last_offset"]) for each in one["acquired_records"]]
            if any(first <= offset <= last for offset in markers for first, last in ranges):
                return False
    return True


def _leads_at_once(answer: Any) -> bool:
    return bool(answer["skip_assignment"] and answer["leader"] == answer["member_id"])


_NO_TRACE = "A refused join leaves no group"

_NOT_OURS = "No settings of tiered storage and of Streams groups"

NOT_SPOKEN = {
    "Streams groups": (88, 89),
    "Security: SASL, ACLs, tokens, quotas": (17, 29, 30, 31, 36, 38, 39, 40, 41, 48, 49, 50, 51),
    "Several nodes, several disks, and the controller's affairs": (34, 43, 45, 55, 57, 64, 80, 81),
}
"""API keys that Headgate does not advertise, for it does not speak them."""

_MORE_APIS = "More APIs"
_NAME = "A share group has a name"
_WITHOUT_PARTITIONS = "Topics and markers without partitions are answered, too"
_ONE_NODE = "No features of a cluster that is upgraded node by node"
_FEATURES = ("metadata", "kraft", "group", "streams", "eligible.leader.replicas")

_LOST_ANSWER = "A static member whose first answer was lost can join again"

_WITHIN_ONE = "The uniform assignor balances to within one partition"

ACCEPTED: tuple[Accepted, ...] = (
    *(
        Accepted(
            scenario="*",
            step="*",
            path=f"*/configs/{names}",
            kafka=ANY,
            headgate=ABSENT,
            difference=_NOT_OURS,
        )
        for names in ("local.retention.*", "remote.*", "streams.*")
    ),
    Accepted(
        scenario="configs-*",
        step="*",
        path="*/configs/offsets.retention.ms",
        kafka=ABSENT,
        headgate=ANY,
        difference="A group can have a retention of its own",
    ),
    Accepted(
        scenario="*",
        step="*",
        path="*/configs/errors.deadletterqueue.*",
        kafka=ABSENT,
        headgate=ANY,
        difference="Share groups have dead-letter topics",
    ),
    *(
        Accepted(
            scenario="*",
            step="*",
            path="*error_message",
            kafka=silence,
            headgate="<words>",
            difference="Refusals are explained",
        )
        for silence in (None, "")
    ),
    Accepted(
        scenario="configs-*",
        step="main: incremental_alter_configs * (*, operation 7)",
        path="responses/*/error_code",
        kafka="unknown_server_error",
        headgate="invalid_request",
        difference=_NAMED_FAULT,
    ),
    *(
        Accepted(
            scenario="brokers-*",
            step="main: api_versions *",
            path=f"api_keys/{key}",
            kafka=ANY,
            headgate=ABSENT,
            difference=difference,
        )
        for difference, keys in NOT_SPOKEN.items()
        for key in keys
    ),
    *(
        Accepted(
            scenario="brokers-*",
            step="main: api_versions *",
            path=f"api_keys/{key}",
            kafka=ABSENT,
            headgate=ANY,
            difference=_MORE_APIS,
        )
        for key in range(20_001, 20_009)
    ),
    *(
        Accepted(
            scenario="brokers-*",
            step="main: api_versions *",
            path=f"*_features/{name}.version",
            kafka=ANY,
            headgate=ABSENT,
            difference=_ONE_NODE,
        )
        for name in _FEATURES
    ),
    Accepted(
        scenario="brokers-*",
        step="main: api_versions *",
        path="finalized_features_epoch",
        kafka=ANY,
        headgate=0,
        difference=_ONE_NODE,
    ),
    Accepted(
        scenario="brokers-*",
        step="main: api_versions *",
        path="supported_features/headgate.conditional.commit",
        kafka=ABSENT,
        headgate=ANY,
        difference=_MORE_APIS,
    ),
    Accepted(
        scenario="*",
        step="*",
        path="*/configs/headgate.durability",
        kafka=ABSENT,
        headgate=ANY,
        difference="Settings of its own",
    ),
    Accepted(
        scenario="*",
        step="*",
        path="*/configs/min.insync.replicas/config_source",
        kafka=3,
        headgate=5,
        difference="`min.insync.replicas` is a setting of topics only",
    ),
    Accepted(
        scenario="classic-joins-that-are-refused",
        step="main: describe_groups v6",
        path="groups/*/error_code",
        kafka="none",
        headgate="group_id_not_found",
        difference=_NO_TRACE,
    ),
    Accepted(
        scenario="classic-joins-that-are-refused",
        step="main: describe_groups v6",
        path="groups/*/group_state",
        kafka="Empty",
        headgate="Dead",
        difference=_NO_TRACE,
    ),
    *(
        Accepted(
            scenario="topic-ids-what-comes-twice",
            step=f"main: offset_commit * ({which} twice)",
            path="topics/*",
            kafka=ANY,
            headgate=ANY,
            difference="A topic that a commit names twice is answered twice",
            where=partial(_answers_partitions, taken=taken),
        )
        for which, taken in (("known", 3), ("unknown", 1))
    ),
    *(
        Accepted(
            scenario="*",
            step="main: consumer_group_describe v1*",
            path="groups/*/assignment_epoch",
            kafka=epoch - 1,
            headgate=epoch,
            difference="The target assignment of an empty group has the last epoch",
            where=_nobody_is_in,
        )
        for epoch in (3, 4, 5)
    ),
    *(
        Accepted(
            scenario="consumer-members-the-assignor-that-most-want",
            step=step,
            path=path,
            kafka=4,
            headgate=5,
            difference="Another preferred assignor assigns at once",
        )
        for step, path in (
            ("b: consumer_group_heartbeat v1", "member_epoch"),
            ("main: consumer_group_describe v1", "groups/*/*_epoch"),
            ("main: consumer_group_describe v1", "groups/*/members/b/member_epoch"),
        )
    ),
    Accepted(
        scenario="consumer-members-names-and-an-expression",
        step="main: consumer_group_describe v1",
        path="groups/*/members/a/assignment/topic_partitions/<id of *-one>",
        kafka=ABSENT,
        headgate={
            "topic_id": "<id of consumer-members-names-and-an-expression-one>",
            "topic_name": "consumer-members-names-and-an-expression-one",
            "partitions": [0],
        },
        difference="A partition gets a new owner only with a later epoch of the old owner",
    ),
    *(
        Accepted(
            scenario="consumer-members-some-members-read-more-topics",
            step="main: consumer_group_describe v1",
            path=f"groups/*/members/{member}/target_assignment/topic_partitions/{topic}",
            kafka=kafka,
            headgate=headgate,
            difference=_WITHIN_ONE,
        )
        for member, topic, kafka, headgate in (
            ("a", "<id of *-one>/partitions", [0, 1, 2], [0, 1]),
            ("b", "<id of *-one>", ABSENT, ANY),
            ("b", "<id of *-two>/partitions", [0, 1], [0]),
            ("c", "<id of *-two>/partitions", [2], [1, 2]),
        )
    ),
    *(
        Accepted(
            scenario="consumer-groups-static-members",
            step="main: consumer_group_heartbeat v1 (its first answer was lost)",
            path=field,
            kafka=kafka,
            headgate=headgate,
            difference=_LOST_ANSWER,
        )
        for field, kafka, headgate in (
            ("error_code", "unreleased_instance_id", "none"),
            ("error_message", "<words>", None),
            ("member_id", None, "s2"),
            ("member_epoch", 0, 2),
            ("heartbeat_interval", 0, 5000),
            ("assignment", None, ANY),
        )
    ),
    *(
        Accepted(
            scenario=scenario,
            step="main: produce *",
            path="responses/*/log_append_time",
            kafka=time_ms,
            headgate=None,
            difference="A repeated batch gets the answer of the first one",
        )
        for scenario, time_ms in (
            ("records-sequences-of-a-producer", NOW_MS),
            ("transactions-*", NOW_MS - 60_000),
            ("transactions-batches-batches-of-several-records", NOW_MS - 58_000),
        )
    ),
    *(
        Accepted(
            scenario="records-byte-limits",
            step=f"main: fetch v13 (* {words})",
            path="responses/*/partitions/0/records",
            kafka=ANY,
            headgate=ANY,
            difference="A fetch response ends with a whole batch",
            where=_has_whole_batches,
        )
        for words in ("one batch and a byte", "two batches and more")
    ),
    *(
        Accepted(
            scenario="records-leader-epochs",
            step="main: fetch v13 (last of epoch *",
            path=f"responses/*/partitions/0/{field}",
            kafka=kafka,
            headgate=headgate,
            difference="The last fetched epoch is not checked",
        )
        for field, kafka, headgate in (
            ("error_code", "offset_out_of_range", "none"),
            ("high_watermark", -1, 6),
            ("last_stable_offset", -1, 6),
            ("log_start_offset", -1, 0),
            ("records", b"", ANY),
        )
    ),
    Accepted(
        scenario="migration-*",
        step="classic: join_group *",
        path="error_code",
        kafka="unknown_server_error",
        headgate="inconsistent_group_protocol",
        difference=_NAMED_FAULT,
    ),
    *(
        Accepted(
            scenario="*-static-member*-change*-protocol",
            step="*: join_group v9",
            path=path,
            kafka=kafka,
            headgate=ANY,
            difference="The member that makes a group classic leads it",
            where=_leads_at_once,
        )
        for path, kafka in (("leader", ""), ("skip_assignment", False), ("members/*", ABSENT))
    ),
    Accepted(
        scenario="share-groups-offsets-of-a-share-group",
        step="main: share_group_describe v1",
        path="groups/*/group_epoch",
        kafka=4,
        headgate=5,
        difference=_RAISES_EPOCH,
    ),
    Accepted(
        scenario="transactions-partitions-verified",
        step="main: add_partitions_to_txn v* ([[]])",
        path="results_by_transaction/*/topic_results/*",
        kafka=ABSENT,
        headgate=ANY,
        difference=_WITHOUT_PARTITIONS,
        where=_answers_no_partition,
    ),
    *(
        Accepted(
            scenario="transactions-markers-markers-of-many-kinds",
            step=f"main: write_txn_markers v* ({note})",
            path="markers/<producer 1>",
            kafka=ABSENT,
            headgate=ANY,
            difference=_WITHOUT_PARTITIONS,
        )
        for note in ("no partitions", "an empty topic")
    ),
    Accepted(
        scenario="transactions-markers-markers-of-many-kinds",
        step="main: write_txn_markers v* (an internal topic)",
        path="markers/*/topics/__transaction_state/partitions/0/error_code",
        kafka="none",
        headgate="unknown_topic_or_partition",
        difference="No markers are written into `__transaction_state`",
    ),
    *(
        Accepted(
            scenario="transactions-markers-markers-*",
            step=f"main: write_txn_markers v* ({note})",
            path="markers/*/error_code",
            kafka="unknown_server_error",
            headgate=error,
            difference=_NAMED_FAULT,
        )
        for note, error in (
            ("of no epoch", "invalid_producer_epoch"),
            ("version 0, epoch -1", "invalid_producer_epoch"),
            ("of no producer", "invalid_producer_id_mapping"),
        )
    ),
    Accepted(
        scenario="transactions-records-*",
        step="main: fetch *",
        path="responses/*/aborted_transactions/*",
        kafka=ANY,
        headgate=ABSENT,
        difference="A fetch response lists fewer aborted transactions",
        where=_tells_aborted_transactions_of_its_batches,
    ),
    *(
        Accepted(
            scenario="transactions-records-a-transaction-that-begins-with-a-repeated-batch",
            step="main: produce v11 (the next)",
            path=f"responses/*/partition_responses/0/{field}",
            kafka=kafka,
            headgate=headgate,
            difference="A batch after a repeated one is in order",
        )
        for field, kafka, headgate in (
            ("error_code", "out_of_order_sequence_number", "none"),
            ("base_offset", -1, 2),
        )
    ),
    *(
        Accepted(
            scenario="transactions-batches-batches-of-no-producer",
            step="main: produce *",
            path=f"responses/*/partition_responses/0/{field}",
            kafka=ANY,
            headgate=headgate,
            difference="A transactional batch without a producer is refused",
        )
        for field, headgate in (
            ("error_code", "invalid_producer_id_mapping"),
            ("base_offset", -1),
            ("log_start_offset", -1),
        )
    ),
    Accepted(
        scenario="share-members-with-operations",
        step="main: share_group_describe v1",
        path="groups/*",
        kafka=ANY,
        headgate=ANY,
        difference="A share group that is named twice is described once",
        where=_describes_one_group,
    ),
    *(
        Accepted(
            scenario="share-sessions-what-is-wrong-with-a-share-*",
            step=f"m: share_{api} v2 ({{'group_id': ''}})",
            path=path,
            kafka=ANY,
            headgate=headgate,
            difference=_NAME,
        )
        for api in ("fetch", "acknowledge")
        for path, headgate in (
            ("error_code", "invalid_request"),
            ("acquisition_lock_timeout", 0),
            ("responses/*", ABSENT),
        )
    ),
    *(
        Accepted(
            scenario="share-sessions-what-is-wrong-with-a-share-fetch",
            step=f"m: share_fetch v2 ({{'share_acquire_mode': {mode}}})",
            path="error_code",
            kafka="unknown_server_error",
            headgate="invalid_request",
            difference=_NAMED_FAULT,
        )
        for mode in (2, -1)
    ),
    *(
        Accepted(
            scenario="share-sessions-topics-that-do-not-exist",
            step="m: share_fetch v2",
            path=path,
            kafka=kafka,
            headgate=headgate,
            difference="An unknown topic id is an error of its partitions",
        )
        for path, kafka, headgate in (
            ("error_code", "unknown_server_error", "none"),
            ("acquisition_lock_timeout", 0, 30_000),
            ("responses/*", ABSENT, ANY),
        )
    ),
    Accepted(
        scenario="share-sessions-who-is-not-a-member-fetches",
        step="stranger: share_fetch v2",
        path="responses/*/error_code",
        kafka="unknown_server_error",
        headgate="unknown_topic_or_partition",
        difference=_NAMED_FAULT,
    ),
    Accepted(
        scenario="share-*",
        step="m: share_* v2*",
        path="responses/*error_message",
        kafka=ANY,
        headgate=None,
        difference="INVALID_REQUEST of an acknowledgement is not explained",
        where=_refuses_a_request,
    ),
    *(
        Accepted(
            scenario=scenario,
            step="main: describe_share_group_offsets v1",
            path=f"groups/*/{field}",
            kafka=-1,
            headgate=ANY,
            difference="The start of a share-partition is durable before its first delivery",
        )
        for scenario in (
            "share-delivery-committed-records-only",
            "share-delivery-records-of-open-transactions",
            "share-delivery-records-that-are-deleted",
            "share-delivery-from-the-latest-on",
            "share-delivery-from-a-duration-on",
            "share-acknowledgements-all-or-nothing",
            "share-offsets-of-records-in-flight",
        )
        for field in ("start_offset", "lag")
    ),
    *(
        Accepted(
            scenario=f"share-delivery-{scenario}",
            step="m: share_fetch v2",
            path=f"responses/*/{path}/*",
            kafka=ANY,
            headgate=ANY,
            difference="Markers of transactions are not acquired",
            where=_acquires_no_marker,
        )
        for scenario, path in (
            ("committed-records-only", "acquired_records"),
            ("committed-records-only", "records"),
            ("records-of-open-transactions", "acquired_records"),
        )
    ),
    *(
        Accepted(
            scenario="share-delivery-records-that-are-deleted",
            step=step,
            path=path,
            kafka=kafka,
            headgate=headgate,
            difference="Records after a moved log start are delivered at once",
        )
        for step, path, kafka, headgate in (
            ("m: share_fetch v2", "responses/*", ABSENT, ANY),
            ("m: share_acknowledge v2", "responses/*/error_code", "invalid_request", "none"),
            ("m: share_acknowledge v2", "responses/*/error_message", ANY, None),
        )
    ),
    *(
        Accepted(
            scenario="share-delivery-with-a-full-window-and-a-record-limit",
            step="m: share_fetch v2",
            path="responses/*",
            kafka=kafka,
            headgate=headgate,
            difference="With a record limit, no more records are in flight than allowed",
        )
        for kafka, headgate in ((ANY, ABSENT), (ABSENT, ANY))
    ),
    *(
        Accepted(
            scenario="share-acknowledgements-in-a-part-of-a-batch",
            step="m: share_fetch v2",
            path=path,
            kafka=kafka,
            headgate=headgate,
            difference="A record limit also holds for records that are delivered again",
        )
        for path, kafka, headgate in (
            ("responses/*/acquired_records/*", ANY, ABSENT),
            ("responses/*", ABSENT, ANY),
        )
    ),
    Accepted(
        scenario="share-offsets-altered-*",
        step="main: describe_share_group_offsets v1",
        path="groups/*/lag",
        kafka=ANY,
        headgate=0,
        difference="The lag of a share group is not negative",
    ),
    *(
        Accepted(
            scenario="share-offsets-altered-to-odd-offsets",
            step=step,
            path=path,
            kafka=kafka,
            headgate=headgate,
            difference=difference,
        )
        for step, path, kafka, headgate, difference in (
            (
                "main: alter_share_group_offsets v0 (-2)",
                "responses/*/error_code",
                "none",
                "invalid_request",
                _NEGATIVE,
            ),
            ("main: alter_share_group_offsets v0 (-2)", "responses/*/error_message", None, ANY, _NEGATIVE),
            ("main: describe_share_group_offsets v1", "groups/*/topics/*", ANY, ABSENT, _NEGATIVE),
            (
                "main: alter_share_group_offsets v0",
                "error_code",
                "unknown_server_error",
                "none",
                _NAMED_FAULT,
            ),
            ("main: alter_share_group_offsets v0", "error_message", ANY, None, _NAMED_FAULT),
            ("main: alter_share_group_offsets v0", "responses/*", ABSENT, ANY, _NAMED_FAULT),
            ("main: describe_share_group_offsets v1", "groups/*/partitions/1", ABSENT, ANY, _NAMED_FAULT),
            ("main: share_group_describe v1", "groups/*/group_epoch", 1, ANY, _RAISES_EPOCH),
        )
    ),
    *(
        Accepted(
            scenario="share-offsets-what-is-wrong-*",
            step="main: describe_share_group_offsets v1",
            path=path,
            kafka="none",
            headgate=headgate,
            difference=difference,
        )
        for path, headgate, difference in (
            ("groups/*/error_code", "invalid_group_id", _NAME),
            (
                "groups/*/partitions/0/error_code",
                "unknown_topic_or_partition",
                "The start offset of an unknown topic is an error",
            ),
        )
    ),
)

BROKER_SETTINGS_OF_OURS = frozenset(
    {
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
        "group.share.initialize.retry.interval.ms",
        "headgate.checkpoint.enable",
        "headgate.checkpoint.interval.records",
        "headgate.durability",
        "headgate.metrics.groups",
        "headgate.metrics.partitions",
        "headgate.metrics.topics",
        "headgate.preallocate.bytes",
        "headgate.transaction.version",
        "offsets.history.retention.ms",
        "share.coordinator.cold.partition.snapshot.interval.ms",
        "share.coordinator.state.topic.prune.interval.ms",
    }
)
"""Settings that Headgate describes for a broker and Kafka does not."""
FIXED_BROKER_SETTINGS = frozenset(
    {"group.consumer.assignment.interval.ms", "group.share.assignment.interval.ms", "listeners"}
)
"""Settings of a broker that Kafka changes at run time and Headgate does not."""
OTHER_DEFAULTS = {
    "group.coordinator.rebalance.protocols": ("classic,consumer,streams", None),
    "node.id": (None, "1"),
    "offsets.topic.num.partitions": ("50", "1"),
    "share.coordinator.state.topic.num.partitions": ("50", "1"),
}
"""Settings of a broker with another default: Kafka's, and Headgate's; None: no default."""
