"""Raw requests, written and read by kio, which knows nothing of our codec.

A request is a tree of plain values by kio's field names; times are integers of milliseconds, a topic id is a
`uuid.UUID`. What the version at hand has no field for is left out, so that one tree serves all versions, but
a name that no version knows is a mistake of the script.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import importlib
import io
import pkgutil
import socket
import struct
import types
import typing
import uuid
from typing import Any

from kio.schema.describe_transactions.v0.response import TransactionState
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32
from tests.kio_schema import kio_class

CLIENT_ID = "script"
ANSWER_TIMEOUT_S = 20.0
EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
CLOSED = {"connection": "closed without an answer"}

Tree = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One request: kio's name of the API, the version, and the values."""

    api: str
    version: int
    values: Tree

    def __str__(self) -> str:
        return f"{self.api} v{self.version}"

    def but(self, **changes: Any) -> Request:
        """The same with other values."""
        return dataclasses.replace(self, values=self.values | changes)

    def kio_type(self, side: str) -> Any:
        """kio's class of this version; `side` is request or response."""
        return kio_class(self.api, self.version, side)


@functools.cache
def _read_start_times_as_numbers() -> None:
    """Let kio read a start time as a number: as a time it refuses -1, which says that there is none.

    This changes kio in the whole process. So it waits until there is a connection: other tests of the same
    process, which import this module for its names only, compare with kio as it is.
    """
    fields = TransactionState.__dataclass_fields__
    fields["transaction_start_time"].metadata = types.MappingProxyType({"kafka_type": "int64"})


class Connection:
    """One connection; a script opens one for each member, since a parked request holds up all behind it."""

    def __init__(self, host: str, port: int) -> None:
        _read_start_times_as_numbers()
        self._socket = socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def send(self, request: Request) -> None:
        """Write the request and do not wait."""
        kio_type = request.kio_type("request")
        self._correlation_id += 1
        header_type = kio_type.__header_schema__
        header = header_type(
            request_api_key=kio_type.__api_key__,
            request_api_version=i16(request.version),
            correlation_id=i32(self._correlation_id),
            client_id=CLIENT_ID,
        )
        with io.BytesIO() as out:
            entity_writer(header_type)(out, header)
            entity_writer(kio_type)(out, build(kio_type, request.values))
            frame = out.getvalue()
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self, request: Request) -> Tree:
        """Read the answer to `request`, all of it; raises TimeoutError."""
        try:
            (size,) = struct.unpack(">i", self._read(4))
            frame = self._read(size)
        except ConnectionError:
            return CLOSED
        kio_type = request.kio_type("response")
        header, size = entity_reader(kio_type.__header_schema__)(frame, 0)
        assert header.correlation_id == self._correlation_id
        message, body_size = entity_reader(kio_type)(frame, size)
        assert size + body_size == len(frame), f"{len(frame) - size - body_size} bytes behind the answer"
        tree: Tree = plain(message)
        return tree

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError
            data += more
        return bytes(data)


def build(kio_type: Any, values: Tree) -> Any:
    """The tree as kio's message; raises TypeError for a field that is missing or that no version has."""
    unknown = values.keys() - _names_in_any_version(kio_type.__module__, kio_type.__name__)
    if unknown:
        raise TypeError(f"no version of {kio_type.__name__} has {', '.join(sorted(unknown))}")
    given = {}
    for field in dataclasses.fields(kio_type):
        if field.name in values:
            given[field.name] = _to_kio(field, values[field.name])
    return kio_type(**given)


def _to_kio(field: dataclasses.Field[Any], value: Any) -> Any:
    if value is None:
        return None
    kind = field.metadata.get("kafka_type")
    if isinstance(value, list | tuple) and kind != "bytes":
        struct_type = _struct_of(field.type) if kind is None else None
        return tuple(_one_to_kio(kind, struct_type, each) for each in value)
    return _one_to_kio(kind, _struct_of(field.type) if kind is None else None, value)


def _one_to_kio(kind: str | None, struct_type: Any, value: Any) -> Any:
    if struct_type is not None:
        return build(struct_type, value)
    if kind in ("timedelta_i32", "timedelta_i64"):
        return datetime.timedelta(milliseconds=value)
    if kind == "datetime_i64":
        return None if value == -1 else EPOCH + datetime.timedelta(milliseconds=value)
    return value


def _struct_of(annotation: Any) -> Any:
    """kio's struct in `X`, `X | None`, `tuple[X, ...]`."""
    if typing.get_origin(annotation) is types.UnionType:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is tuple:
        annotation = typing.get_args(annotation)[0]
    return annotation


@functools.cache
def _names_in_any_version(module_name: str, type_name: str) -> frozenset[str]:
    api, _, side = module_name.split(".")[2:]
    names: set[str] = set()
    for version in pkgutil.iter_modules(importlib.import_module(f"kio.schema.{api}").__path__):
        module = importlib.import_module(f"kio.schema.{api}.{version.name}.{side}")
        if found := getattr(module, type_name, None):
            names.update(field.name for field in dataclasses.fields(found))
    return frozenset(names)


def plain(value: Any) -> Any:
    """What kio read, as plain values: errors by name, times in milliseconds."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, datetime.datetime):
        return round((value - EPOCH).total_seconds() * 1000)
    if isinstance(value, bool | str | bytes | uuid.UUID) or value is None:
        return value
    return int(value) if isinstance(value, int) else value
