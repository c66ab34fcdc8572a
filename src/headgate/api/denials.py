"""Refuses a request as a whole, in the schema of its own API.

Kafka's responses have error codes at different levels: the request, each group, each topic or partition. An
error of a topic goes to the innermost level, where clients look for it. Any other error goes to the outermost
level with an error code. An error below the top level is repeated for each part of the request. A response
without an error code is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headgate.domain.errors import ErrorCode
from headgate.wire.layout import FieldLayout, layout_of
from headgate.wire.message import Struct

if TYPE_CHECKING:
    from headgate.api.contract import Call, Node, RequestSteps

_OTHER_NAMES = {"partition_index": "partition"}
"""Names of fields in a response, and in the request of the same API (Fetch)."""
_NAMES = frozenset(
    {"group_id", "index", "key", "name", "partition", "partition_index", "resource_name", "resource_type"}
    | {"topic", "topic_id", "transactional_id"}
)
"""The fields that identify a part of a response."""
_UNKNOWN = -1
"""Offsets and times in a refusal."""
_NO_PARTS = frozenset({"forgotten_topics_data"})
_MESSAGES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
}
"""Kafka's texts."""


def deny(node: Node, call: Call, request: Any, error: ErrorCode) -> None:
    """Answer a request with the error, at each level of its response that can hold it."""
    call.answer_in_steps(denied_response(request, call.api_version, error))


def denied_response(request: Any, version: int, error: ErrorCode) -> RequestSteps[Any]:
    """Build the response to a request that is refused as a whole, in steps."""
    response = request.response_type()()
    yield from _fill(response, request, version, error)
    return response


def _fill(target: Struct, source: Any, version: int, error: ErrorCode) -> RequestSteps[bool]:
    """Set the error in a response, or in a part of it that answers `source`; return whether it had room."""
    fields = {field.name: field for field in layout_of(type(target)) if version in field.versions}
    has_room = "error_code" in fields
    is_of_parts = error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if (is_of_parts or not has_room) and (yield from _fill_parts(target, source, version, error)):
        return True
    if has_room:
        target.error_code = error  # type: ignore[attr-defined]
        if "error_message" in fields:
            target.error_message = _MESSAGES.get(error, error.name)  # type: ignore[attr-defined]
    return has_room


def _fill_parts(target: Struct, source: Any, version: int, error: ErrorCode) -> RequestSteps[bool]:
    """Add a part for each one that the request names; return whether there is one."""
    for parts, answered in _pairs(target, source, version):
        made: list[Struct] = []
        for one in answered:
            yield None
            part: Struct = parts.struct_type()  # type: ignore[misc]  # `_pairs` gives arrays of structs only
            if _name_alike(part, one, version) and (yield from _fill(part, one, version, error)):
                made.append(part)
        if made:
            setattr(target, parts.name, made)
            return True
    return False


def _pairs(target: Struct, source: Any, version: int) -> Iterator[tuple[FieldLayout, Any]]:
    """Yield the arrays of structs in a response, each with every array of the request that it may answer."""
    if not isinstance(source, Struct):
        return
    named = [
        getattr(source, field.name)
        for field in layout_of(type(source))
        if field.is_array and version in field.versions and field.name not in _NO_PARTS
    ]
    for parts in layout_of(type(target)):
        if parts.is_array and parts.struct_type is not None and version in parts.versions:
            yield from ((parts, answered) for answered in named if answered)


def _name_alike(part: Struct, named: Any, version: int) -> bool:
    """Copy the identifying fields of the request to a part of the response; return whether it could."""
    is_named = False
    for field in layout_of(type(part)):
        if version not in field.versions or field.tag is not None:
            continue
        if field.name in _NAMES:
            value = _name_in(named, field)
            if value is not None:
                setattr(part, field.name, value)
                is_named = True
        elif field.kind == "int64":
            setattr(part, field.name, _UNKNOWN)
    return is_named


def _name_in(named: Any, field: FieldLayout) -> Any:
    if isinstance(named, Struct):
        return getattr(named, field.name, getattr(named, _OTHER_NAMES.get(field.name, field.name), None))
    is_text = isinstance(named, str)
    return named if field.kind == ("string" if is_text else "int32") else None
