"""Lookup of APIs by request headers, with a memory of the headers of one connection."""

from __future__ import annotations

from typing import Final

from headgate.api.registration import Api
from headgate.server.calls import Route
from headgate.wire.codec import reader_for
from headgate.wire.errors import WireError
from headgate.wire.framing import API_VERSIONS_KEY, RequestHeader, read_request_header

LARGEST_REMEMBERED_HEADER: Final = 512
"""Longer headers are decoded each time."""


class UnsupportedRequest(WireError):
    """The API or its version is not supported."""


def read_nothing(frame: bytes, at: int) -> None:
    """Mark a request of ApiVersions in an unsupported version, which is answered without decoding."""
    raise AssertionError("a request in an unsupported version is never read")


class Routes:
    """Finds the routes of the requests of one connection."""

    __slots__ = ("_apis", "_known", "client_id")

    def __init__(self, apis: dict[int, Api]) -> None:
        self._apis = apis
        self.client_id: str | None = None
        """Client id of the last header that was decoded."""
        self._known: dict[bytes, tuple[bytes, Route]] = {}
        """Last header and route by the encoded API key and version. Headers exclude the correlation id."""

    def find(self, frame: bytes) -> tuple[Route, int]:
        """Return the route and the correlation id of a request. Raises WireError."""
        # A client sends the same header every time, except for the correlation id.
        known = self._known.get(frame[:4])
        if known is not None and frame[8 : known[1].body_at] == known[0]:
            return known[1], int.from_bytes(frame[4:8], "big", signed=True)
        header = read_request_header(frame)
        self.client_id = header.client_id
        route = self._route_of(header)
        if route.body_at <= LARGEST_REMEMBERED_HEADER and route.read is not read_nothing:
            self._known[frame[:4]] = (frame[8 : route.body_at], route)
        return route, header.correlation_id

    def _route_of(self, header: RequestHeader) -> Route:
        api = self._apis.get(header.api_key)
        if api is None:
            raise UnsupportedRequest(f"API key {header.api_key} is not supported")
        version = header.api_version
        if api.min_version <= version <= api.max_version:
            read = reader_for(api.request_type, version)
            return Route(api, version, header.client_id, header.body_at, read)
        if api.key == API_VERSIONS_KEY:
            return Route(api, version, header.client_id, 0, read_nothing)
        raise UnsupportedRequest(
            f"{api.name} version {version} is not supported, only {api.min_version} to {api.max_version}"
        )
