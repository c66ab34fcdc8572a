"""Check that no table has rows from behind the progress before a run lands any.

With an older `progress.json` over newer tables, restored from a backup for example, records would be landed
again in other ranges, and their rows would be there twice. All files are listed for that, once for each
process: what this process saved last is not older than the tables.
"""

from __future__ import annotations

from headgate.spark.landing import tables
from headgate.spark.landing.files import Folder
from headgate.spark.landing.progress import NAME, LandingRefused, Progress

_saved: dict[str, Progress] = {}
"""The progress that this process saved last, by target."""


def is_covered(table: str, name: str, progress: Progress) -> bool:
    """Return whether a file of a table that grows has only rows of finished ranges."""
    landed = progress.of_log(tables.log_of(table)).get(tables.partition_in(name))
    return landed is not None and tables.bounds_in(name)[1] <= landed.end


def check_files(target: Folder, progress: Progress) -> None:
    """Refuse a target with rows from behind the progress, except for those of its planned ranges, which a run
    that was killed wrote. Raises LandingRefused, OSError.
    """
    if _saved.get(target.uri) == progress:
        return
    planned = {(where.topic, where.partition, (start, end)) for where, start, end in progress.planned}
    for table in progress.tables:
        if table not in tables.GROWING:
            continue
        for name in filter(tables.is_landed, target.names(table)):
            place = tables.log_of(table), tables.partition_in(name), tables.bounds_in(name)
            if not is_covered(table, name, progress) and place not in planned:
                raise LandingRefused(_is_older(target, name))


def check_sample(target: Folder, name: str) -> None:
    """Refuse a target that has a sample of this number already. Raises LandingRefused, OSError."""
    if target.has(name):
        raise LandingRefused(_is_older(target, name))


def remember(target: Folder, progress: Progress) -> None:
    """Take note of the progress at the end of a run."""
    _saved[target.uri] = progress


def _is_older(target: Folder, name: str) -> str:
    return (
        f"{target.uri} has {name}, which {NAME} does not know: it is older than the tables, and rows "
        "would be landed twice; restore the newest one, or land elsewhere"
    )
