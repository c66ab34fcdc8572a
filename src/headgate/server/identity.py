"""Random ids as Kafka formats them, and the cluster id: created at the first start, in `meta.properties`.

The catalogue stores the cluster id too, and stores it before the file is written. So a lost file is written
again, and a damaged file, a file of another directory and a lost catalogue are detected.
"""

from __future__ import annotations

import base64
import logging
import uuid
from pathlib import Path

from headgate.domain.ids import Millis
from headgate.log.filesystem import FileSystem, read_file, replace_file
from headgate.topics.catalogue import Catalogue
from headgate.topics.topics import Topics

logger = logging.getLogger(__name__)

FILE_NAME = "meta.properties"
_KEY = "cluster.id="


def random_id() -> str:
    """Return a random UUID as Kafka's `Uuid` prints it: base64url, 22 characters, the first one not "-"."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def check_identity(files: FileSystem, data_dir: Path, catalogue: Catalogue) -> None:
    """Check that the file and the catalogue belong together, without changes. Raises OSError if not."""
    path, known = data_dir / FILE_NAME, catalogue.cluster_id
    if not files.exists(path):
        if known is None and catalogue.end_offset:
            raise OSError(f"{path} is missing; restore it from a copy")
        return
    found = _read(files, path)
    if known is None and not catalogue.end_offset:
        raise OSError(
            f"{path} is there, and the catalogue beside it is empty; restore the directory `catalogue` from "
            "a copy, or remove the file if nothing was ever kept here"
        )
    if known not in (None, found):
        raise OSError(
            f"{path} says that the cluster is {found}, the catalogue that it is {known}; restore what "
            "belongs here from a copy, or remove the file: it is written again from the catalogue"
        )


def cluster_id(files: FileSystem, topics: Topics, now: Millis) -> str:
    """Return the cluster id of the checked data directory, 22 characters. Raises OSError."""
    path, known = topics.data_dir / FILE_NAME, topics.cluster_id
    is_there = files.exists(path)
    if known is None:
        known = _read(files, path) if is_there else random_id()
        topics.name_cluster(known, now)
        event = "the cluster got an id" if topics.all() else "a new data directory was begun"
        logger.info(event, extra={"data_dir": str(topics.data_dir), "cluster": known})
    elif not is_there:
        logger.warning("a file was missing and is written again from the catalogue", extra={"path": path})
    if not is_there:
        replace_file(files, path, f"version=1\n{_KEY}{known}\n".encode())
    return known


def _read(files: FileSystem, path: Path) -> str:
    for line in read_file(files, path).decode(errors="replace").splitlines():
        if line.startswith(_KEY):
            return line.removeprefix(_KEY).strip()
    raise OSError(f"{path} has no line that begins with {_KEY}; restore it from a copy")
