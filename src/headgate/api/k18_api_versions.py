"""ApiVersions (18), versions 0-4: the APIs and versions of this node, from the registrations.

A request in an unknown version gets a version 0 response with UNSUPPORTED_VERSION and this API's own range
only (KIP-511); the client asks again. The response header never has tags, in any version, as the client does
not know yet which version it will get. From version 3, features of an API beyond Kafka's protocol are
supported features (KIP-584); version 4 only allows a feature to start at 0 (KIP-1022).

The feature `transaction.version` tells clients which protocol of transactions to use. It is finalized at the
level of the setting `headgate.transaction.version`, as soon as every API that version 2 needs is registered.
`share.version` 1 tells that share groups work (KIP-932).
Clients ignore finalized features without an epoch of 0 or more.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from headgate.api.contract import Call, Node
from headgate.api.needs import nothing
from headgate.api.registration import Api
from headgate.domain.errors import ErrorCode
from headgate.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NAMES_SINCE_VERSION = 3

_ZERO_SINCE_VERSION = 4
"""First version in which a feature may start at 0."""
_TRANSACTION_VERSION = "transaction.version"
_LATEST_TRANSACTION_VERSION = 2
_NEEDED_FOR_TRANSACTIONS = {0: 12, 22: 4, 24: 4, 25: 4, 26: 5, 28: 5}
"""The APIs that version 2 of the transaction protocol needs, each with its version."""

_SHARE_VERSION = "share.version"
_LATEST_SHARE_VERSION = 1
_NEEDED_FOR_SHARE_GROUPS = {76: 1, 77: 1, 78: 2, 79: 2, 90: 1, 91: 0, 92: 0}
"""The APIs of share groups (KIP-932), each with its version."""

_PRODUCE = 0
_ADVERTISED_FROM = {_PRODUCE: 0}
"""APIs advertised from an earlier version than they have. librdkafka requires version 0 of Produce before it
compresses batches; no client uses such an old version. Kafka does the same (KAFKA-18659).
"""

_FIRST_OF_OURS = 20_001
_KNOW_KAFKAS_ALONE = frozenset({"kafka-python"})
"""Clients, by the software name that they send, whose list of APIs fails with a key that is not Kafka's."""


def api_versions(apis: Collection[Api]) -> Api:
    """Return the registration that advertises `apis` and itself."""
    own = ApiVersion(api_key=18, min_version=0, max_version=4)
    others = [
        ApiVersion(
            api_key=api.key,
            min_version=_ADVERTISED_FROM.get(api.key, api.min_version),
            max_version=api.max_version,
        )
        for api in apis
    ]
    advertised = sorted([*others, own], key=lambda version: version.api_key)
    of_kafka = [version for version in advertised if version.api_key < _FIRST_OF_OURS]
    features = [
        SupportedFeatureKey(name=name, min_version=1, max_version=1) for api in apis for name in api.features
    ]
    versions = {api.key: api.max_version for api in apis}
    has_transactions = all(versions.get(key, -1) >= least for key, least in _NEEDED_FOR_TRANSACTIONS.items())

    has_share_groups = all(versions.get(key, -1) >= least for key, least in _NEEDED_FOR_SHARE_GROUPS.items())

    def handle(node: Node, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
        if call.api_version >= _NAMES_SINCE_VERSION and not _names_its_software(request):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        keys = of_kafka if request.client_software_name in _KNOW_KAFKAS_ALONE else advertised
        response = ApiVersionsResponse(api_keys=keys, supported_features=features)
        if has_transactions:
            level = node.settings["headgate.transaction.version"]
            _add_feature(response, call.api_version, _TRANSACTION_VERSION, _LATEST_TRANSACTION_VERSION, level)
        if has_share_groups:
            latest = _LATEST_SHARE_VERSION
            _add_feature(response, call.api_version, _SHARE_VERSION, latest, latest)
        return response

    return Api(
        own.api_key, "ApiVersions", 0, 4, ApiVersionsRequest, ApiVersionsResponse, handle, needs=nothing
    )


def _add_feature(response: ApiVersionsResponse, version: int, name: str, latest: int, level: int) -> None:
    """Tell the versions of a feature of the cluster, from 0 on, and the one in force, `level`.

    Version 3 of the response cannot say 0, so the feature is not among its supported ones, as in Kafka.
    """
    if version >= _ZERO_SINCE_VERSION:
        feature = SupportedFeatureKey(name=name, min_version=0, max_version=latest)
        response.supported_features = [*response.supported_features, feature]
    response.finalized_features_epoch = 0
    if level:  # a feature at level 0 is not finalized
        response.finalized_features = [
            *response.finalized_features,
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level),
        ]


def unsupported(own: Api) -> ApiVersionsResponse:
    """Return the response, always in version 0, to an ApiVersions request in an unknown version."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=own.key, min_version=own.min_version, max_version=own.max_version)],
    )


def _names_its_software(request: ApiVersionsRequest) -> bool:
    return bool(
        _SOFTWARE_NAME.fullmatch(request.client_software_name)
        and _SOFTWARE_NAME.fullmatch(request.client_software_version)
    )
