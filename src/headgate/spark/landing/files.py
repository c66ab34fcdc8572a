"""A folder of any file system of `pyarrow.fs`, whose files appear as a whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from headgate.spark.landing.footers import attached_to, checked_footer, with_checksum
from headgate.spark.options import OptionError

ASIDE_SUFFIX = ".tmp"
DELTA_LOG = "_delta_log"
"""The folder of a table with its Delta log, which `deltalake` writes."""
_OBJECT_STORES = ("s3", "gcs", "abfs")


class UnreadableFile(OSError):
    """A Parquet file that cannot be read: it was cut short, or is of another kind."""


@dataclass(frozen=True, slots=True)
class FileAbout:
    """A file by its name in the folder, its size in bytes, and when it was modified, in ms."""

    name: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by its path or URI: `/data/tables`, `file:///data/tables`, `s3://bucket/tables`.

    All methods raise OptionError for a URI of no known file system.
    """

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

    def has(self, name: str) -> bool:
        """Return whether there is a file or a folder of that name. Raises OSError."""
        system, root = self._open()
        return system.get_file_info(f"{root}/{name}").type is not fs.FileType.NotFound

    def local_path(self) -> Path | None:
        """Return the path of a folder of this machine's file system; None for another one."""
        system, root = self._open()
        return Path(root) if isinstance(system, fs.LocalFileSystem) else None

    def absolute(self) -> Folder:
        """Return the folder for processes with other working directories, such as Spark's workers."""
        path = self.local_path()
        return self if path is None else Folder(str(path))

    def location(self) -> str:
        """Return the path of a local folder, else the URI."""
        path = self.local_path()
        return self.uri.rstrip("/") if path is None else str(path)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, replacing any other of its name. Raises OSError."""
        system, root = self._open()
        self._put(system, f"{root}/{name}", content)

    def write_table(self, name: str, table: pa.Table, attached: bytes = b"") -> None:
        """Write a Parquet file, replacing any other of its name. Raises OSError.

        `attached` are bytes in the file for `read_with_attached`, which other readers pass over.
        """
        self.write_tables(name, table.schema, [table], attached)

    def write_tables(
        self, name: str, schema: pa.Schema, tables: Iterable[pa.Table], attached: bytes = b""
    ) -> None:
        """Write the tables as one Parquet file, of which at most one is in memory uncompressed."""
        sink = pa.BufferOutputStream()
        options = {"compression": "zstd", "write_page_checksum": True, **_encodings(schema)}
        with pq.ParquetWriter(sink, schema, **options) as writer:
            for table in tables:
                writer.write_table(table)
        self.write(name, with_checksum(sink.getvalue().to_pybytes(), attached))

    def read_table(
        self, name: str, columns: Sequence[str] | None = None, where: pc.Expression | None = None
    ) -> pa.Table:
        """Read a Parquet file: these columns, and the rows that fulfil `where`. Raises OSError."""
        chosen = None if columns is None else list(columns)
        with self._checked(name) as (file, _):
            return _rows(file, chosen, where)

    def read_with_attached(self, name: str, size_key: bytes) -> tuple[pa.Table, bytes]:
        """Read a whole Parquet file and the bytes attached to it, whose number is in the metadata of that
        key, in one read. Raises OSError, FileNotFoundError if it does not exist.
        """
        with self._checked(name) as (file, footer):
            file.seek(0)
            content = file.read()
            size = int((footer.metadata or {}).get(size_key, 0))
            return _rows(pa.BufferReader(content), None, None), attached_to(content, size)

    def footer(self, name: str) -> pq.FileMetaData:
        """Return the footer of a Parquet file. Raises OSError, FileNotFoundError if it does not exist."""
        with self._checked(name) as (_, footer):
            return footer

    def rename(self, name: str, new: str) -> None:
        """Rename a file. Raises OSError."""
        system, root = self._open()
        system.move(f"{root}/{name}", f"{root}/{new}")
        if isinstance(system, fs.LocalFileSystem):
            _sync(Path(f"{root}/{new}").parent)

    def names(self, folder: str) -> list[str]:
        """Return the names of all files below a folder, sorted, without unfinished ones and Delta logs."""
        return [one.name for one in self.about(folder)]

    def about(self, folder: str) -> list[FileAbout]:
        """Return the same with sizes and times."""
        system, root = self._open()
        below = fs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        found = (
            FileAbout(one.path.removeprefix(f"{root}/"), one.size, (one.mtime_ns or 0) // 1_000_000)
            for one in system.get_file_info(below)
            if one.type is fs.FileType.File and not one.path.endswith(ASIDE_SUFFIX)
        )
        return sorted(
            (one for one in found if DELTA_LOG not in one.name.split("/")), key=lambda one: one.name
        )

    def delete(self, name: str) -> None:
        """Delete a file, if it exists. Raises OSError."""
        system, root = self._open()
        path = f"{root}/{name}"
        if system.get_file_info(path).type is not fs.FileType.NotFound:
            system.delete_file(path)

    def remove_unfinished(self, folder: str) -> None:
        """Delete the temporary files below a folder, which only a killed process leaves. Raises OSError."""
        system, root = self._open()
        if system.type_name in _OBJECT_STORES:
            return
        below = fs.FileSelector(f"{root}/{folder}", recursive=True, allow_not_found=True)
        for found in system.get_file_info(below):
            if found.base_name.startswith(".") and found.base_name.endswith(ASIDE_SUFFIX):
                system.delete_file(found.path)

    def _open(self) -> tuple[fs.FileSystem, str]:
        if "://" not in self.uri:
            return fs.LocalFileSystem(), str(Path(self.uri).absolute())
        try:
            system, root = fs.FileSystem.from_uri(self.uri)
        except pa.ArrowException as problem:
            reason = str(problem).partition("\n")[0]
            raise OptionError(
                f"{self.uri}: {reason}; a folder or a URI is expected, as /data/tables, file:///data/tables "
                "or s3://bucket/tables"
            ) from problem
        return system, root.rstrip("/")

    @contextmanager
    def _checked(self, name: str) -> Iterator[tuple[pa.NativeFile, pq.FileMetaData]]:
        """Open a Parquet file and check its footer; name the file in errors of the library.

        Raises UnreadableFile, other errors of the system unchanged.
        """
        system, root = self._open()
        path = f"{root}/{name}"
        try:
            with system.open_input_file(path) as file:
                yield file, checked_footer(file)
        except (pa.ArrowException, OSError, ValueError) as problem:
            if isinstance(problem, OSError) and problem.errno is not None:
                raise
            reason = str(problem).partition("\n")[0]
            raise UnreadableFile(
                f"{path} cannot be read: {reason}; restore it, or land elsewhere"
            ) from problem

    def _put(self, system: fs.FileSystem, path: str, content: bytes) -> None:
        parent = path.rpartition("/")[0]
        if isinstance(system, fs.LocalFileSystem):
            _put_durably(Path(path), content)
            return
        system.create_dir(parent, recursive=True)
        # An object store shows an object when it is complete; other file systems need a rename.
        if system.type_name in _OBJECT_STORES:
            with system.open_output_stream(path) as stream:
                stream.write(content)
            return
        aside = f"{parent}/{_aside_name(path.rpartition('/')[2])}"
        with system.open_output_stream(aside) as stream:
            stream.write(content)
        system.move(aside, path)


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return the encodings of a table without nested columns: differences for numbers and times.

    Sorted rows differ little, so files are a fraction of the size of those with dictionaries of numbers.
    """
    if any(pa.types.is_nested(field.type) for field in schema):
        return {}
    numbers = [
        field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type)
    ]
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    return {"use_dictionary": texts, "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED")}


def _rows(source: pa.NativeFile, columns: list[str] | None, where: pc.Expression | None) -> pa.Table:
    return pq.read_table(
        source, columns=columns, filters=where, partitioning=None, page_checksum_verification=True
    )


def _aside_name(name: str) -> str:
    """Return a name that readers of tables skip, because of its dot, and that no other attempt uses."""
    return f".{name}.{uuid.uuid4().hex}{ASIDE_SUFFIX}"


def _put_durably(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(_aside_name(path.name))
    try:
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except BaseException as problem:
        aside.unlink(missing_ok=True)
        if isinstance(problem, OSError) and problem.filename is None:  # no write has one
            problem.filename = str(path)
        raise
    # Sync the parents of new folders too: without their directory entries the file is lost in a crash.
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        _sync(folder)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
