"""Random ids as Kafka writes them, and the cluster id: made at the first start, kept in `meta.properties`."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

from headgate.log.filesystem import FileSystem, read_file, replace_file

FILE_NAME = "meta.properties"
_KEY = "cluster.id="


def random_id() -> str:
    """A random UUID as Kafka's `Uuid` prints it: base64url, 22 characters, the first of which is no "-"."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def cluster_id(files: FileSystem, data_dir: Path) -> str:
    """The id of the cluster whose data this is, 22 characters. Raises OSError."""
    path = data_dir / FILE_NAME
    if files.exists(path):
        for line in read_file(files, path).decode(errors="replace").splitlines():
            if line.startswith(_KEY):
                return line.removeprefix(_KEY).strip()
        raise OSError(f"{path} has no line that begins with {_KEY}; restore it, or remove it for a new id")
    made = random_id()
    replace_file(files, path, f"version=1\n{_KEY}{made}\n".encode())
    return made
