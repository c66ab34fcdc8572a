"""What a partition knows beside its batches, in one small file: `headgate.checkpoint`.

    headgate log checkpoint 2
    log flights-0
    log_start_offset 1200
    recovery_point 56000
    crc32c 0x1f2e3d4c

The log start offset is where readers may begin; DeleteRecords and retention move it. Below the recovery
point everything is known to be whole and durable, so recovery starts there. The file is replaced in one
step, so one that does not read, or is another log's, is damage: the log does not open. The first format did
not say whose it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from headgate.log.filesystem import FileSystem, replace_file

if TYPE_CHECKING:
    from pathlib import Path

CHECKPOINT_NAME: Final = "headgate.checkpoint"
_TITLE: Final = "headgate log checkpoint 2"
_FIRST_TITLE: Final = "headgate log checkpoint 1"


@dataclass(slots=True, frozen=True)
class Checkpoint:
    """The two offsets that outlive the process beside the batches, and whose they are."""

    log_start_offset: int = 0
    recovery_point: int = 0
    log: str = ""
    """The name of the log's directory; empty where it was not noted."""

    def to_bytes(self) -> bytes:
        """The contents of the file."""
        title = f"{_TITLE}\nlog {self.log}" if self.log else _FIRST_TITLE
        text = f"{title}\nlog_start_offset {self.log_start_offset}\nrecovery_point {self.recovery_point}\n"
        return f"{text}crc32c {crc32c(text.encode()):#010x}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Checkpoint | None:
        """The checkpoint these bytes are, or None: they must be exactly what `to_bytes` makes."""
        try:
            title, *lines, start, recovery, _ = data.decode().splitlines()
            log = lines[0].removeprefix("log ") if lines else ""
            checkpoint = cls(int(start.split()[1]), int(recovery.split()[1]), log)
        except (ValueError, IndexError):
            return None
        return checkpoint if title in (_TITLE, _FIRST_TITLE) and checkpoint.to_bytes() == data else None


def save_checkpoint(files: FileSystem, directory: Path, checkpoint: Checkpoint) -> None:
    """Replace the partition's checkpoint, durably."""
    replace_file(files, directory / CHECKPOINT_NAME, checkpoint.to_bytes())
