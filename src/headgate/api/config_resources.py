"""Find the resource that a request describes or alters: a topic, a group, the broker.

`topics.configs` has the rules for values; this module finds the resource and where its overrides are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from headgate.api.administration import in_words, log_change
from headgate.api.background_syncs import sync_after_change
from headgate.api.contract import Call, Node, RequestSteps
from headgate.domain.broker_settings import ALWAYS
from headgate.domain.errors import ErrorCode
from headgate.domain.topic_names import why_invalid
from headgate.topics.changed_settings import SettingsChange
from headgate.topics.configs import (
    Change,
    ConfigValue,
    ResourceType,
    altered,
    altered_broker,
    altered_group,
    check_group,
    describe_all_brokers,
    describe_broker,
    describe_group,
    describe_topic,
)
from headgate.topics.refusal import Refusal
from headgate.topics.topic import Topic

AnswerT = TypeVar("AnswerT")
_CHANGED_AT_ONCE: Final = 500
"""Resources changed with one sync; so many changes take some milliseconds."""


@dataclass(frozen=True, slots=True)
class ConfigResource:
    """One resource: its settings in force, its overrides, and how to replace them."""

    described: Sequence[ConfigValue]
    overrides: Mapping[str, str]
    altered: Callable[[Mapping[str, str], Sequence[Change]], Mapping[str, str] | Refusal]
    """Returns the overrides after changes, or why the changes are refused."""
    change: Callable[[Mapping[str, str]], SettingsChange]
    """Returns the change that replaces the overrides by these."""
    refusal_of: Callable[[Mapping[str, str]], Refusal | None] = lambda values: None
    """Returns why valid values cannot be combined; None if they can."""
    is_current: Callable[[], bool] = lambda: False
    """Returns whether the resource exists unchanged, with the same overrides."""


def find_resource(node: Node, resource_type: int, name: str) -> ConfigResource | Refusal:
    """Return the resource that a request names, or why there is none."""
    if resource_type == ResourceType.TOPIC:
        return _find_topic(node, name)
    if resource_type == ResourceType.GROUP:
        if not name:
            return Refusal(ErrorCode.INVALID_REQUEST, "The group id must not be empty.")
        overrides = dict(node.topics.group_overrides(name))
        described = describe_group(node.settings, overrides)
        return ConfigResource(
            described,
            overrides,
            partial(altered_group, node.settings, described),
            partial(node.topics.group_change, name),
            lambda values: check_group(node.settings, values),
            lambda: node.topics.group_overrides(name) == overrides,
        )
    if resource_type == ResourceType.BROKER:
        if name not in ("", str(node.node_id)):
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node.node_id} or empty string, but received {name}",
            )
        return _find_broker(node, name)
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")


def _find_topic(node: Node, name: str) -> ConfigResource | Refusal:
    problem = why_invalid(name)
    if problem is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    topic = node.topics.by_name(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    overrides = dict(topic.overrides)
    described = describe_topic(node.settings, overrides)
    return ConfigResource(
        described,
        overrides,
        partial(altered, described),
        partial(_change_topic, node, topic),
        is_current=lambda: node.topics.by_name(name) is topic and topic.overrides == overrides,
    )


def _change_topic(node: Node, topic: Topic, values: Mapping[str, str]) -> SettingsChange:
    change = node.topics.topic_change(topic, values)

    def when_made() -> None:
        change.when_made()
        sync_after_change(node, topic)

    return SettingsChange(change.event, when_made)


def _find_broker(node: Node, name: str) -> ConfigResource:
    """Return one broker, or without a name the settings of all of them."""
    settings = node.settings
    described = describe_broker(settings, _facts(node)) if name else describe_all_brokers(settings)
    overrides = node.topics.broker_overrides(name)
    return ConfigResource(
        described,
        overrides,
        partial(altered_broker, settings),
        partial(node.topics.broker_change, name),
    )


def _facts(node: Node) -> Mapping[str, str]:
    """Return Kafka's settings that are fixed or given in other ways here."""
    address = f"PLAINTEXT://{node.advertised_host}:{node.advertised_port}"
    return {
        "advertised.listeners": address,
        "broker.id": str(node.node_id),
        "listeners": address,
        "log.dirs": node.topics.data_dir_text,
        **ALWAYS,
    }


Decide = Callable[[Any, ConfigResource], Mapping[str, str] | Refusal]


class AlterRequest(Protocol):
    """A request to alter resources, each named by type and name."""

    resources: Any
    validate_only: bool


class _Decided(NamedTuple):
    """A decided change of a resource, and the resource as it was then."""

    resource: ConfigResource
    values: Mapping[str, str]
    """The overrides after the change."""
    change: SettingsChange


class _Alteration:
    """One request: changes are decided one by one, and made some hundred at a time, with one sync."""

    def __init__(self, node: Node, call: Call, decide: Decide, *, validate_only: bool) -> None:
        self._node = node
        self._call = call
        self._decide = decide
        self._validate_only = validate_only
        self._decided: dict[int, tuple[Any, _Decided]] = {}
        self.refusals: dict[int, Refusal] = {}
        """Why resources were not altered, by their positions in the request."""

    def look_at(self, place: int, wanted: Any) -> None:
        """Decide the change of a resource; make the decided changes if that is due."""
        is_broker = wanted.resource_type == ResourceType.BROKER
        if is_broker:  # other changes depend on the settings of the broker
            self.make()
        decided = self._look_at(wanted)
        if isinstance(decided, Refusal):
            self.refusals[place] = decided
        elif not self._validate_only:
            self._decided[place] = wanted, decided
        if is_broker or len(self._decided) >= _CHANGED_AT_ONCE:
            self.make()

    def make(self) -> None:
        """Make the decided changes; decide again for resources that changed meanwhile."""
        made: dict[int, tuple[Any, _Decided]] = {}
        for place, (wanted, decided) in self._decided.items():
            again = decided if decided.resource.is_current() else self._look_at(wanted)
            if isinstance(again, Refusal):
                self.refusals[place] = again
            else:
                made[place] = wanted, again
        self._decided.clear()
        changes = [decided.change for _, decided in made.values()]
        failure = self._node.topics.change_settings(changes, self._node.system_time())
        if failure is not None:
            self.refusals.update(dict.fromkeys(made, failure))
            return
        for wanted, decided in made.values():
            self._log(wanted, decided)

    def _log(self, wanted: Any, decided: _Decided) -> None:
        changes = in_words(decided.resource.overrides, decided.values)
        if changes:
            kind = ResourceType(wanted.resource_type).name.lower()
            fields = {"resource": f"{kind}:{wanted.resource_name}", "changes": changes}
            log_change(self._call, "settings changed", fields)

    def _look_at(self, wanted: Any) -> _Decided | Refusal:
        resource = find_resource(self._node, wanted.resource_type, wanted.resource_name)
        if isinstance(resource, Refusal):
            return resource
        values = self._decide(wanted, resource)
        refusal = values if isinstance(values, Refusal) else resource.refusal_of(values)
        if refusal is not None:
            return refusal
        assert not isinstance(values, Refusal)
        return _Decided(resource, values, resource.change(values))


def alter(
    node: Node, call: Call, request: AlterRequest, decide: Decide, answer_type: Callable[..., AnswerT]
) -> RequestSteps[list[AnswerT]]:
    """Alter each resource separately, and return an answer for each in the order asked.

    `decide` gets a resource as the request has it and as it is, and returns its new overrides.
    """
    names = [(wanted.resource_type, wanted.resource_name) for wanted in request.resources]
    times_named = Counter(names)
    twice = Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    alteration = _Alteration(node, call, decide, validate_only=request.validate_only)
    for place, wanted in enumerate(request.resources):
        yield None
        if times_named[names[place]] > 1:
            alteration.refusals[place] = twice
        else:
            alteration.look_at(place, wanted)
    alteration.make()
    answers = []
    for place, (resource_type, name) in enumerate(names):
        refusal = alteration.refusals.get(place)
        answers.append(
            answer_type(
                error_code=ErrorCode.NONE if refusal is None else refusal.error,
                error_message=None if refusal is None else refusal.message,
                resource_type=resource_type,
                resource_name=name,
            )
        )
    return answers
