"""Land the coordinator's log as tables of Parquet files, exactly once.

    TARGET/offset_commits/log_partition=7/date=2026-11-22/00000000000000001200-00000000000000005600.parquet
    TARGET/group_events/...
    TARGET/offsets_current/log_partition=7/current.parquet
    TARGET/_headgate/progress.json

A run fixes its ranges of offsets before any work starts, and writes them to `progress.json`. Workers write
each file under a temporary name, make it durable and rename it; then the progress advances past the ranges. A
run that was killed is repeated with the same ranges and file names, so no row is lost or duplicated. Readers
that must ignore the files of an unfinished run read up to the offsets in `progress.json`.

Only durable records are landed: up to the sync mark of a Headgate data directory, the high watermark
checkpoint of a Kafka one, or the high watermark of a cluster.
"""

from headgate.spark.landing.as_of import gaps_at, landed_until, offsets_as_of, offsets_now
from headgate.spark.landing.job import (
    Landed,
    LandingFailed,
    SourceAway,
    land,
    landings,
    run_here,
    run_on_spark,
)
from headgate.spark.landing.progress import LandingRefused
from headgate.spark.landing.tables import TABLES

__all__ = [
    "TABLES",
    "Landed",
    "LandingFailed",
    "LandingRefused",
    "SourceAway",
    "gaps_at",
    "land",
    "landed_until",
    "landings",
    "offsets_as_of",
    "offsets_now",
    "run_here",
    "run_on_spark",
]
