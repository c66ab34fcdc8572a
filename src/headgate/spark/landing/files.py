"""A folder of any file system of `pyarrow.fs`, whose files appear as a whole or not at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

ASIDE_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by its path or URI: `/data/tables`, `file:///data/tables`, `s3://bucket/tables`."""

    uri: str

    def read(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it does not exist. Raises OSError."""
        system, root = self._open()
        path = f"{root}/{name}"
        if system.get_file_info(path).type is fs.FileType.NotFound:
            return None
        with system.open_input_stream(path) as stream:
            content: bytes = stream.read()
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replacing any other of its name. Raises OSError."""
        system, root = self._open()
        self._put(system, f"{root}/{name}", content)

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a Parquet file, replacing any other of its name. Raises OSError."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        self.write(name, sink.getvalue().to_pybytes())

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" not in self.uri:
            return fs.LocalFileSystem(), str(Path(self.uri).absolute())
        system, root = fs.FileSystem.from_uri(self.uri)
        return system, root.rstrip("/")

    def _put(self, system: fs.FileSystem, path: str, content: bytes) -> None:
        parent = path.rpartition("/")[0]
        if isinstance(system, fs.LocalFileSystem):
            _put_durably(Path(path), content)
            return
        system.create_dir(parent, recursive=True)
        # An object store shows an object when it is complete; other file systems need a rename.
        if system.type_name in ("s3", "gcs", "abfs"):
            with system.open_output_stream(path) as stream:
                stream.write(content)
            return
        with system.open_output_stream(path + ASIDE_SUFFIX) as stream:
            stream.write(content)
        system.move(path + ASIDE_SUFFIX, path)


def _put_durably(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(path.name + ASIDE_SUFFIX)
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    # Sync the parents of new folders too: without their directory entries the file is lost in a crash.
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
