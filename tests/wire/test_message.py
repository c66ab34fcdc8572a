"""Messages as values, and their layouts."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.wire.tables import facts_of_messages, facts_of_table

from headgate.wire.layout import ALL_VERSIONS, NO_VERSIONS, is_flexible, layout_of
from headgate.wire.message import Request, Struct
from headgate.wire.messages import APIS, GENERATED_FROM
from headgate.wire.messages.consumer_group_describe import Assignment, Member
from headgate.wire.messages.fetch import FetchRequest, PartitionData
from headgate.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestTopic

MESSAGES = Path(__file__).parents[2] / "src/headgate/wire/messages"


def test_every_message_has_a_list_and_a_struct_of_its_own() -> None:
    """Defaults are not shared: changing a list of one message does not change another message."""
    first, second = Member(), Member()
    first.subscribed_topic_names.append("t")
    first.assignment.topic_partitions.append(Assignment().topic_partitions)  # type: ignore[arg-type]
    assert second.subscribed_topic_names == []
    assert second.assignment == Assignment()
    assert Member() == second


def run_fresh(script: str) -> tuple[int, str]:
    """Run a program in a new interpreter. Return its exit code and its errors."""
    done = subprocess.run(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr


def test_creating_a_struct_without_fields_does_not_change_others() -> None:
    """The `__init__` that is compiled at the first use belongs to one class only."""
    script = (
        "from headgate.wire.message import Request, Struct\n"
        "from headgate.wire.messages.heartbeat import HeartbeatRequest\n"
        "Struct(), Request()\n"
        "assert HeartbeatRequest(group_id='g').group_id == 'g'\n"
    )
    assert run_fresh(script) == (0, "")


def test_a_list_that_is_given_is_kept_and_none_stays_none() -> None:
    """A new list is created only for an argument that is not given."""
    topics = [MetadataRequestTopic(name="t")]
    assert MetadataRequest(topics=topics).topics is topics
    assert MetadataRequest(topics=None).topics is None


def test_messages_are_equal_when_all_fields_are() -> None:
    """Equality depends on the class and the fields only."""
    assert OffsetCommitRequest(group_id="a") == OffsetCommitRequest(group_id="a")
    assert OffsetCommitRequest(group_id="a") != OffsetCommitRequest(group_id="b")
    assert OffsetCommitRequestTopic() != MetadataRequestTopic()
    with pytest.raises(TypeError, match="unhashable"):
        hash(OffsetCommitRequest())


def test_a_message_shows_its_fields() -> None:
    """The `repr` of a message is the expression that creates it."""
    topic = MetadataRequestTopic(name="t")
    text = repr(MetadataRequest(topics=[topic]))
    assert text.startswith("MetadataRequest(topics=[MetadataRequestTopic(topic_id=")
    assert eval(text) == MetadataRequest(topics=[topic])


def test_a_message_has_only_its_fields() -> None:
    """A misspelt field is an error when a message is created and when it is changed."""
    with pytest.raises(TypeError, match="grop_id"):
        OffsetCommitRequest(grop_id="g")  # type: ignore[call-arg]
    request = OffsetCommitRequest()
    with pytest.raises(AttributeError):
        request.grop_id = "g"  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="positional"):
        OffsetCommitRequest("g")  # type: ignore[call-arg]


def test_messages_can_be_copied_and_pickled() -> None:
    """A copied or unpickled message equals the original."""
    member = Member(member_id="m", subscribed_topic_names=["t"])
    assert copy.deepcopy(member) == member
    assert pickle.loads(pickle.dumps(member)) == member


def test_a_layout_describes_a_field() -> None:
    """Versions, nulls, arrays, structs and tags are read from the text of the annotation."""
    fields = {field.name: field for field in layout_of(FetchRequest)}
    assert fields["max_wait_ms"].versions == ALL_VERSIONS
    assert fields["replica_id"].versions == range(4, 15)
    assert fields["rack_id"].versions == range(11, ALL_VERSIONS.stop)
    assert fields["rack_id"].null_versions == NO_VERSIONS
    assert fields["cluster_id"].null_versions == fields["cluster_id"].versions
    assert (fields["cluster_id"].tag, fields["replica_state"].tag, fields["rack_id"].tag) == (0, 1, None)
    assert fields["topics"].is_array and fields["topics"].struct_type is not None
    assert fields["topics"].struct_type.__name__ == "FetchTopic"
    topics = layout_of(MetadataRequest)[0]
    assert 0 in topics.versions and 0 not in topics.null_versions and 1 in topics.null_versions
    aborted = {field.name: field for field in layout_of(PartitionData)}["aborted_transactions"]
    assert aborted.struct_type is not None and aborted.struct_type.__name__ == "AbortedTransaction"


def test_flexible_versions_start_at_the_declared_version() -> None:
    """Earlier versions are not flexible. Some APIs have no flexible version."""
    assert [is_flexible(OffsetCommitRequest, version) for version in (7, 8, 10)] == [False, True, True]
    offset_delete = importlib.import_module("headgate.wire.messages.offset_delete")
    assert not is_flexible(offset_delete.OffsetDeleteRequest, 0)


@pytest.mark.parametrize("api_key", APIS)
def test_the_index_agrees_with_the_messages(api_key: int) -> None:
    """The table, which is read without importing the messages, agrees with their classes."""
    info = APIS[api_key]
    module = importlib.import_module(f"headgate.wire.messages.{info.module}")
    assert facts_of_messages(module, info.name) == [facts_of_table(api_key, info)] * 2
    request_type: type[Request[object]] = getattr(module, info.name + "Request")  # type: ignore[type-var]
    assert request_type.response_type() is getattr(module, info.name + "Response")


@pytest.mark.parametrize("api_key", APIS)
def test_every_field_of_every_struct_has_a_valid_layout(api_key: int) -> None:
    """The codec can read every annotation."""
    module = importlib.import_module(f"headgate.wire.messages.{APIS[api_key].module}")
    structs = [
        member
        for member in vars(module).values()
        if isinstance(member, type) and issubclass(member, Struct) and member.__module__ == module.__name__
    ]
    assert structs
    for struct in structs:
        assert len(layout_of(struct)) == len(struct.FIELD_DEFAULTS)
        assert struct() == struct()


def test_the_messages_are_what_the_generator_writes(tmp_path: Path) -> None:
    """Generated modules were not edited. Skipped if the installed kio differs from the generator's."""
    if f"kio {version('kio')}" != GENERATED_FROM:
        pytest.skip(f"the messages are generated from {GENERATED_FROM}")
    generator = Path(__file__).parents[2] / "tools/generate_messages.py"
    subprocess.run([sys.executable, str(generator), str(tmp_path)], check=True, timeout=120)
    written = {path.name: path.read_text() for path in tmp_path.glob("*.py")}
    assert written == {path.name: path.read_text() for path in MESSAGES.glob("*.py")}


def test_importing_the_messages_needs_no_kio() -> None:
    """kio is a development dependency: neither the messages nor the codec import it."""
    script = (
        "import sys, importlib, headgate.wire.codec\n"
        "from headgate.wire.messages import APIS\n"
        "for api in APIS.values(): importlib.import_module('headgate.wire.messages.' + api.module)\n"
        "assert not any(name == 'kio' or name.startswith('kio.') for name in sys.modules)\n"
    )
    assert run_fresh(script) == (0, "")
