"""Run the requested action and return its exit code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from headgate.admin import (
    Admin,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    PartitionDescription,
    PartlyRefused,
    ResourceType,
    TopicDescription,
)
from headgate.cli.advice import in_words
from headgate.cli.connecting import run_with_admin
from headgate.cli.printing import Row, print_csv, print_json, print_rows, printable, say
from headgate.cli.topics.options import Options, action_of
from headgate.cli.usage_problem import UsageProblem
from headgate.domain.errors import ErrorCode
from headgate.domain.wording import did_you_mean

_DEFAULT = "DEFAULT_CONFIG"
_PARTITION = ("topic", "partition", "leader", "replicas", "isr", "elr", "last_known_elr")


def run(options: Options) -> int:
    """Run the requested action, print its result and return the exit code."""
    return run_with_admin(options, lambda admin: _ACTIONS[action_of(options)](admin, options))


def list_topics(admin: Admin, options: Options) -> int:
    """Print the names of topics."""
    names = _chosen(admin, options)
    if options.output == "table":
        for name in names:
            print(printable(name))
    else:
        print_rows([{"topic": name} for name in names], ("topic",), "topics", options.output)
    return 0


def create_topic(admin: Admin, options: Options) -> int:
    """Create a topic. Return 1 if it is refused."""
    assert options.topic is not None
    new = NewTopic(
        name=options.topic,
        partitions=-1 if options.partitions is None else options.partitions,
        replication_factor=-1 if options.replication_factor is None else options.replication_factor,
        configs=dict(map(_setting, options.config)),
        assignment=_assignment(options.replica_assignment),
    )
    try:
        admin.create_topics([new])
    except PartlyRefused as refused:
        (error,) = refused.refused.values()
        if options.if_not_exists and error.error == ErrorCode.TOPIC_ALREADY_EXISTS:
            return 0
        say(in_words(error))
        return 1
    _print_done("created", [options.topic], f"Created topic {printable(options.topic)}.", options)
    return 0


def alter_topics(admin: Admin, options: Options) -> int:
    """Increase the number of partitions of topics. Return 1 if it is refused."""
    assert options.partitions is not None
    names = _chosen(admin, options)
    if not names:
        return _nothing_found(admin, options)
    assigned = _assignment(options.replica_assignment)
    described = admin.describe_topics(names)
    new = {name: assigned[len(topic.partitions) :] for name, topic in described.items() if topic and assigned}
    try:
        admin.create_partitions(dict.fromkeys(names, options.partitions), new)
    except PartlyRefused as refused:
        say(in_words(refused))
        return 1
    if options.output != "table":
        _print_done("altered", names, "", options)
    return 0


def delete_topics(admin: Admin, options: Options) -> int:
    """Delete topics. Return 1 if one is refused."""
    names = _chosen(admin, options)
    if not names:
        return _nothing_found(admin, options)
    refused: PartlyRefused[str] | None = None
    try:
        admin.delete_topics(names)
    except PartlyRefused as error:
        refused = error
        say(in_words(error))
    done = [name for name in names if refused is None or name not in refused.refused]
    if options.output != "table":
        _print_done("deleted", done, "", options)
    return 0 if refused is None else 1


def describe_topics(admin: Admin, options: Options) -> int:
    """Print topics with their partitions. Return 1 if there is none of these names."""
    names = _with_id(admin, options) if options.topic_id else _chosen(admin, options)
    if not names and (options.topic or options.topic_id):
        return _nothing_found(admin, options)
    found = [topic for topic in admin.describe_topics(names).values() if topic is not None]
    configs = _configs_of(admin, found)
    found = [one for one in found if not options.topics_with_overrides or _changed(configs[one.name])]
    live = set(admin.broker_ids())
    kept = {one.name: _kept(one, configs[one.name], live, options.state) for one in found}
    if options.output == "table":
        for one in found:
            _print_as_kafka(one, configs[one.name], kept[one.name], options)
    elif options.output == "csv":
        print_csv([_flat(_row(one, part)) for one in found for part in kept[one.name]], _PARTITION)
    else:
        print_json({"topics": [_document(one, configs[one.name], kept[one.name]) for one in found]})
    return 0


# --- which topics ---


def _chosen(admin: Admin, options: Options) -> list[str]:
    """Return the names that --topic matches, sorted, or all. Raises `UsageProblem`."""
    described = admin.cluster.metadata().topics
    names = sorted(str(one.name) for one in described if not (options.exclude_internal and one.is_internal))
    if options.topic is None:
        return names
    pattern = "|".join(word.strip() for word in options.topic.split(","))
    try:
        matches = re.compile(pattern).fullmatch
    except re.error as problem:
        raise UsageProblem(f"--topic {options.topic}: no regular expression: {problem}") from problem
    return [name for name in names if matches(name)]


def _with_id(admin: Admin, options: Options) -> list[str]:
    found = admin.describe_topics()
    return [name for name, topic in found.items() if topic is not None and topic.topic_id == options.topic_id]


def _nothing_found(admin: Admin, options: Options) -> int:
    if options.if_exists:
        return 0
    if options.topic_id:
        say(f"there is no topic with the id {options.topic_id}; `headgate topics --describe` shows the ids")
        return 1
    hint = did_you_mean(str(options.topic), admin.topics()) or "`headgate topics --list` lists all topics"
    say(f"there is no topic called {options.topic}; {hint}")
    return 1


# --- what is given ---


def _setting(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise UsageProblem(f"--config {text}: NAME=VALUE is expected")
    return name.strip(), value.strip()


def _assignment(text: str | None) -> list[list[int]]:
    """Return the nodes of each partition in `1:2,2:3`."""
    if text is None:
        return []
    try:
        return [[int(node) for node in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise UsageProblem(
            f"--replica-assignment {text}: node ids are expected, as 1:2,2:3 for two partitions"
        ) from None


# --- descriptions ---


def _configs_of(admin: Admin, found: Iterable[TopicDescription]) -> dict[str, list[ConfigEntry]]:
    resources = [ConfigResource(ResourceType.TOPIC, one.name) for one in found]
    return {resource.name: entries for resource, entries in admin.describe_configs(resources).items()}


def _changed(entries: Iterable[ConfigEntry]) -> list[ConfigEntry]:
    return [entry for entry in entries if entry.source != _DEFAULT]


def _kept(
    topic: TopicDescription, entries: Iterable[ConfigEntry], live: set[int], state: str | None
) -> list[PartitionDescription]:
    """Return the partitions in the requested state, or all."""
    if state is None:
        return list(topic.partitions)
    least = next((int(one.value) for one in entries if one.name == "min.insync.replicas" and one.value), 1)
    tests: dict[str, Callable[[PartitionDescription], bool]] = {
        "unavailable_partitions": lambda one: one.leader is None or one.leader not in live,
        "under_replicated_partitions": lambda one: len(one.isr) < len(one.replicas),
        "under_min_isr_partitions": lambda one: one.leader is None or len(one.isr) < least,
        "at_min_isr_partitions": lambda one: len(one.isr) == least,
    }
    return [one for one in topic.partitions if tests[state](one)]


def _print_as_kafka(
    topic: TopicDescription,
    entries: Iterable[ConfigEntry],
    partitions: Iterable[PartitionDescription],
    options: Options,
) -> None:
    """Print the lines of Kafka's tool, which scripts read."""
    name = printable(topic.name)
    if options.state is None:
        words = [f"Topic: {name}"]
        words += [f"TopicId: {topic.topic_id}"] if topic.topic_id else []
        words += [
            f"PartitionCount: {len(topic.partitions)}",
            f"ReplicationFactor: {topic.replication_factor}",
        ]
        configs = ",".join(f"{one.name}={_value(one)}" for one in _changed(entries))
        print("\t".join([*words, f"Configs: {configs}"]))
    if options.topics_with_overrides:
        return
    for one in partitions:
        words = [
            f"Topic: {name}",
            f"Partition: {one.partition}",
            f"Leader: {'none' if one.leader is None else one.leader}",
            f"Replicas: {_nodes(one.replicas)}",
            f"Isr: {_nodes(one.isr)}",
            f"Elr: {_nodes(one.elr)}",
            f"LastKnownElr: {_nodes(one.last_known_elr)}",
        ]
        print("\t" + "\t".join(words))


def _value(entry: ConfigEntry) -> str:
    return "null" if entry.value is None else printable(entry.value)


def _nodes(nodes: tuple[int, ...] | None) -> str:
    return "N/A" if nodes is None else ",".join(map(str, nodes))


def _row(topic: TopicDescription, one: PartitionDescription) -> Row:
    return {
        "topic": topic.name,
        "partition": one.partition,
        "leader": one.leader,
        "replicas": list(one.replicas),
        "isr": list(one.isr),
        "elr": None if one.elr is None else list(one.elr),
        "last_known_elr": None if one.last_known_elr is None else list(one.last_known_elr),
    }


def _flat(row: Row) -> Row:
    """Return a row of JSON for CSV: nodes are separated by spaces."""
    return {
        name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in row.items()
    }


def _document(
    topic: TopicDescription, entries: Iterable[ConfigEntry], partitions: Iterable[PartitionDescription]
) -> Row:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "configs": {one.name: one.value for one in _changed(entries)},
        "partitions": [{k: v for k, v in _row(topic, one).items() if k != "topic"} for one in partitions],
    }


def _print_done(name: str, topics: list[str], text: str, options: Options) -> None:
    if options.output == "table":
        print(text)
    else:
        print_rows([{"topic": one} for one in topics], ("topic",), name, options.output)


_ACTIONS: dict[str, Callable[[Admin, Options], int]] = {
    "list": list_topics,
    "describe": describe_topics,
    "create": create_topic,
    "alter": alter_topics,
    "delete": delete_topics,
}
