"""Generate src/headgate/wire/messages: one module per API, from the message types of the kio package.

kio has one class for every version of every message. This program merges the versions of a message into one
class: all fields in the order of the wire, each with its versions, the versions in which it is nullable, its
type and its tag, as `headgate.wire.layout` reads them. Times get Kafka's suffix `_ms` again. Headgate's own
fields, which Kafka does not have, are declared in EXTENSIONS and follow Kafka's.

Run it after a new version of kio: `python tools/generate_messages.py`, or with the output folder. The output
is checked in, so that the package and its users do not need kio; the tests of the wire compare both.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from kio.static.constants import EntityType

PROJECT = Path(__file__).parent.parent
OUTPUT = PROJECT / "src/headgate/wire/messages"

API_NAMES = (
    "produce",
    "fetch",
    "list_offsets",
    "metadata",
    "offset_commit",
    "offset_fetch",
    "find_coordinator",
    "join_group",
    "heartbeat",
    "leave_group",
    "sync_group",
    "describe_groups",
    "list_groups",
    "sasl_handshake",
    "api_versions",
    "create_topics",
    "delete_topics",
    "delete_records",
    "init_producer_id",
    "offset_for_leader_epoch",
    "add_partitions_to_txn",
    "add_offsets_to_txn",
    "end_txn",
    "write_txn_markers",
    "describe_configs",
    "alter_configs",
    "describe_log_dirs",
    "sasl_authenticate",
    "create_partitions",
    "delete_groups",
    "incremental_alter_configs",
    "list_partition_reassignments",
    "txn_offset_commit",
    "offset_delete",
    "describe_cluster",
    "describe_producers",
    "describe_transactions",
    "list_transactions",
    "consumer_group_heartbeat",
    "consumer_group_describe",
    "list_config_resources",
    "describe_topic_partitions",
    "share_group_heartbeat",
    "share_group_describe",
    "share_fetch",
    "share_acknowledge",
    "initialize_share_group_state",
    "read_share_group_state",
    "write_share_group_state",
    "delete_share_group_state",
    "read_share_group_state_summary",
    "describe_share_group_offsets",
    "alter_share_group_offsets",
    "delete_share_group_offsets",
)


@dataclass(frozen=True)
class Extension:
    """A field of Headgate in one of Kafka's structs: tagged, so that clients that do not know it skip it
    (KIP-482).

    It is None if it was not sent.
    """

    struct: str
    name: str
    kind: str
    since: int
    tag: int


EXTENSION_TAG = 20001
"""Kafka numbers tags from 0 in each struct; no struct has ten."""

EXTENSIONS = (
    Extension("OffsetCommitRequest", "undone_ms", "int64", 8, EXTENSION_TAG),
    Extension("OffsetCommitRequestPartition", "expected_offset", "int64", 8, EXTENSION_TAG),
    Extension("OffsetCommitResponsePartition", "current_offset", "int64", 8, EXTENSION_TAG),
)

LINE_LENGTH = 110

PYTHON_TYPES = {"bool": "bool", "string": "str", "bytes": "bytes", "records": "bytes", "uuid": "bytes"}
IMPLICIT_DEFAULTS = {"bool": "False", "string": '""', "bytes": 'b""', "records": "None", "uuid": "ZERO_UUID"}

# kio has its own Python types for these; on the wire they are integers, and the names of times end in Ms.
TIMES = {"timedelta_i32": "int32", "timedelta_i64": "int64", "datetime_i64": "int64"}


@dataclass(frozen=True)
class Shape:
    """The encoding of one field in one version of a message."""

    kind: str  # a primitive type, or "struct"
    struct: str | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: str | None  # as source; None if kio has none


@dataclass(frozen=True)
class Field:
    """One field over all versions of its struct."""

    name: str
    shapes: dict[int, Shape]

    @property
    def latest(self) -> Shape:
        """Return the shape in the newest version."""
        return self.shapes[max(self.shapes)]


@dataclass(frozen=True)
class Struct:
    """One struct over all versions of its message; `versions` are the versions that have it."""

    name: str
    fields: list[Field]
    versions: list[int]


@dataclass(frozen=True)
class Message:
    """A request or a response: its structs, the message itself first, each before those it contains."""

    api_key: int
    versions: list[int]
    flexible_since: int | None
    structs: list[Struct]


def main(output: Path = OUTPUT) -> None:
    """Write all modules and format them."""
    output.mkdir(exist_ok=True)
    rows = []
    for name in API_NAMES:
        request, response = read_message(name, "request"), read_message(name, "response")
        (output / f"{name}.py").write_text(render_module(request, response))
        title = request.structs[0].name.removesuffix("Request")
        limits = f"{request.versions[0]}, {request.versions[-1]}, {request.flexible_since}"
        rows.append((request.api_key, f'{request.api_key}: ApiInfo("{title}", "{name}", {limits}),'))
    (output / "__init__.py").write_text(render_index([row for _, row in sorted(rows)]))
    for command in ("check", "--fix", "--quiet"), ("format", "--quiet"):
        subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--config", PROJECT / "pyproject.toml", output],
            check=True,
        )


def read_message(api_name: str, side: str) -> Message:
    """Merge kio's versions of one request or response."""
    package = importlib.import_module(f"kio.schema.{api_name}")
    versions = sorted(int(module.name[1:]) for module in pkgutil.iter_modules(package.__path__))
    roots: dict[int, Any] = {}
    classes: dict[str, dict[int, Any]] = {}
    for version in versions:
        module = importlib.import_module(f"kio.schema.{api_name}.v{version}.{side}")
        for member in vars(module).values():
            if isinstance(member, type) and member.__module__ == module.__name__:
                classes.setdefault(member.__name__, {})[version] = member
                if getattr(member, "__type__", None) is EntityType[side]:
                    roots[version] = member
    latest = roots[versions[-1]]
    structs = {name: merge_struct(name, by_version) for name, by_version in classes.items()}
    flexible = [version for version, root in roots.items() if root.__flexible__]
    return Message(
        api_key=int(latest.__api_key__),
        versions=versions,
        flexible_since=min(flexible, default=None),
        structs=list(outside_in(structs, latest.__name__)),
    )


def merge_struct(name: str, by_version: dict[int, Any]) -> Struct:
    """Merge the versions of a struct: in the newest order, older fields after the field they followed."""
    order: list[str] = []
    shapes: dict[str, dict[int, Shape]] = {}
    for version in sorted(by_version, reverse=True):
        previous = -1
        for field in dataclasses.fields(by_version[version]):
            field_name = field.name + ("_ms" if field.metadata.get("kafka_type") in TIMES else "")
            if field_name not in order:
                order.insert(previous + 1, field_name)
            assert field.metadata.get("tag") is not None or order.index(field_name) > previous
            previous = order.index(field_name)
            shapes.setdefault(field_name, {})[version] = read_shape(field)
    for extension in EXTENSIONS:
        if extension.struct == name:
            shape = Shape(extension.kind, None, False, False, extension.tag, "None")
            order.append(extension.name)
            shapes[extension.name] = {each: shape for each in by_version if each >= extension.since}
    return Struct(name, [Field(each, shapes[each]) for each in order], sorted(by_version))


def read_shape(field: dataclasses.Field[Any]) -> Shape:
    """Read one field of one of kio's classes."""
    python_type, is_nullable = without_none(field.type)
    is_array = typing.get_origin(python_type) is tuple
    if is_array:
        python_type = typing.get_args(python_type)[0]
    kafka_type = field.metadata.get("kafka_type", "struct")
    if kafka_type in ("uuid", "datetime_i64"):
        is_nullable = False  # kio uses None for the zero id, and for a time of -1
    kind = "int16" if kafka_type == "error_code" else TIMES.get(kafka_type, kafka_type)
    default = None
    if kind == "struct" and not is_array and field.metadata.get("tag") is not None:
        default = "None"  # a tagged struct may be missing
    elif field.default is not dataclasses.MISSING:
        default = default_source(kafka_type, field.default)
    struct = python_type.__name__ if kind == "struct" else None
    return Shape(kind, struct, is_array, is_nullable, field.metadata.get("tag"), default)


def without_none(python_type: Any) -> tuple[Any, bool]:
    """Return the type without None, and whether None was part of it."""
    if typing.get_origin(python_type) not in (types.UnionType, typing.Union):
        return python_type, False
    (inner,) = (each for each in typing.get_args(python_type) if each is not types.NoneType)
    return inner, True


def default_source(kafka_type: str, value: Any) -> str:
    """Return a default as Python source."""
    if kafka_type == "uuid" and value is None:
        return "ZERO_UUID"
    if kafka_type == "datetime_i64" and value is None:
        return "-1"
    if kafka_type.startswith("timedelta"):
        return str(round(value.total_seconds() * 1000))
    if kafka_type == "error_code":
        return str(value.value)
    if value == ():
        return "EMPTY"
    if value is None or isinstance(value, bool | str | bytes):
        return repr(value)
    return str(int(value))


def outside_in(structs: dict[str, Struct], name: str) -> Iterator[Struct]:
    """Yield the struct, then those that it contains."""
    yield structs[name]
    for field in structs[name].fields:
        if field.latest.struct is not None:
            yield from outside_in(structs, field.latest.struct)


def render_module(request: Message, response: Message) -> str:
    """Return the source of one API's module."""
    title = request.structs[0].name.removesuffix("Request")
    flexible = "never flexible"
    if request.flexible_since is not None:
        flexible = f"flexible from {request.flexible_since}"
    blocks = [
        f'"""{title} (api key {request.api_key}), versions {spell(request.versions)}, {flexible}.\n\n'
        'Generated by tools/generate_messages.py; not to be edited.\n"""\n\n'
        "from __future__ import annotations\n\n"
        "from typing import Annotated, ClassVar\n\n"
        "from headgate.wire.message import EMPTY, FRESH, ZERO_UUID, Request, Response, Struct\n"
    ]
    done: dict[str, str] = {}
    for message, base in (request, f'Request["{response.structs[0].name}"]'), (response, "Response"):
        for struct in message.structs:
            if struct is message.structs[0]:
                source = render_message(message, base)
            else:
                source = render_struct(struct, message.versions[-1], [*request.structs, *response.structs])
            assert done.get(struct.name, source) == source, f"two different structs named {struct.name}"
            if struct.name not in done:
                blocks.append(source)
            done[struct.name] = source
    return "\n\n".join(blocks)


def render_message(message: Message, base: str) -> str:
    """Return the source of a request's or a response's class."""
    root = message.structs[0]
    word = "response" if base == "Response" else "request"
    return (
        f"class {root.name}({base}):\n"
        f'    """The {word} of api key {message.api_key}."""\n\n'
        f"    API_KEY: ClassVar[int] = {message.api_key}\n"
        f"    VERSIONS: ClassVar[tuple[int, int]] = {message.versions[0], message.versions[-1]}\n"
        f"    FLEXIBLE_SINCE: ClassVar[int | None] = {message.flexible_since}\n\n"
        f"{render_fields(root, message.versions[-1])}"
    )


def render_struct(struct: Struct, last_version: int, all_structs: list[Struct]) -> str:
    """Return the source of a nested struct's class; its docstring says which struct uses it."""
    places = {
        f"`{outer.name}.{field.name}`": None
        for outer in all_structs
        for field in outer.fields
        if field.latest.struct == struct.name
    }
    said = f'    """In {" and ".join(places)}."""'
    if len(said) > LINE_LENGTH:
        said = '    """In ' + " and\n    ".join(places) + '.\n    """'
    return f"class {struct.name}(Struct):\n{said}\n\n{render_fields(struct, last_version)}"


def render_fields(struct: Struct, last_version: int) -> str:
    """Return the source lines of a class's fields."""
    return "".join(f"    {render_field(field, struct.versions, last_version)}\n" for field in struct.fields)


def render_field(field: Field, struct_versions: list[int], last_version: int) -> str:
    """Return the source line of one field: Python's type, the wire's, and the default."""
    latest = field.latest
    for shape in field.shapes.values():
        assert (shape.kind, shape.struct, shape.tag) == (latest.kind, latest.struct, latest.tag), field
    versions = sorted(field.shapes)
    nullable = sorted(version for version, shape in field.shapes.items() if shape.is_nullable)
    words = ["[]" + latest.kind if latest.is_array else latest.kind]
    if versions != struct_versions:
        words.append(spell(versions, last_version))
    if nullable:
        words.append("null" if nullable == versions else f"null {spell(nullable, last_version)}")
    if latest.tag is not None:
        words.append(f"tag {latest.tag}")
    defaults = {shape.default for shape in field.shapes.values() if shape.default is not None}
    assert len(defaults) <= 1, field
    default = defaults.pop() if defaults else implicit_default(latest)
    python_type = latest.struct or PYTHON_TYPES.get(latest.kind, "int")
    if latest.is_array:
        python_type = f"list[{python_type}]"
    if nullable or default == "None":
        python_type += " | None"
    return f'{field.name}: Annotated[{python_type}, "{" ".join(words)}"] = {default}'


def implicit_default(shape: Shape) -> str:
    """Return Kafka's default for a type, for a field without one."""
    if shape.is_array:
        return "EMPTY"
    if shape.kind == "struct":
        return "FRESH"
    if shape.kind == "records" and not shape.is_nullable:
        return IMPLICIT_DEFAULTS["bytes"]
    return IMPLICIT_DEFAULTS.get(shape.kind, "0")


def spell(versions: list[int], last_version: int | None = None) -> str:
    """Return a range of versions in Kafka's notation: 3, 2-4, 6+."""
    first, last = versions[0], versions[-1]
    assert versions == list(range(first, last + 1))
    if last == last_version:
        return f"{first}+"
    return str(first) if first == last else f"{first}-{last}"


def render_index(rows: list[str]) -> str:
    """Return the source of the package's index, which imports modules lazily."""
    table = "\n    ".join(rows)
    return f'''"""The messages, a module for each API. This table lists them without importing them.

Generated by tools/generate_messages.py; not to be edited.
"""

from __future__ import annotations

from typing import NamedTuple

GENERATED_FROM = "kio {metadata.version("kio")}"


class ApiInfo(NamedTuple):
    """The messages of one API. The versions that a node offers are in its registrations."""

    name: str
    module: str
    min_version: int
    max_version: int
    flexible_since: int | None


APIS: dict[int, ApiInfo] = {{
    {table}
}}
'''


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
