"""The classes of kio, which knows Kafka's messages by itself: what ours are compared with."""

from __future__ import annotations

import importlib
from typing import Any


def kio_class(api: str, version: int, side: str) -> Any:
    """The class of one version of a request or a response; `api` in words with underscores."""
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{side}")
    return getattr(module, "".join(map(str.title, api.split("_"))) + side.title())
