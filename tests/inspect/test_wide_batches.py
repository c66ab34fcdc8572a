"""Large batches are checked in columns, and the findings are those of a check record by record."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.domain.ids import GROUP_OFFSETS_TOPIC, GroupId, Millis, TopicId, TopicName
from headgate.domain.partitioning import partition_for
from headgate.inspect import verify_records
from headgate.inspect.directory import PartitionPlace
from headgate.inspect.findings import Finding, Findings
from headgate.inspect.reading import FoundBatch
from headgate.inspect.strangers import Strangers
from headgate.inspect.verify_records import CoordinatorRecordCheck, RecordCheck
from headgate.log.batch import Record, encode_batch, read_header
from headgate.records import GroupTombstone, OffsetCommit, OffsetTombstone, encode
from headgate.records.runs import RunPlace
from headgate.topics.catalogue import CatalogueEntry

TORN = RunPlace(0, 0, 3).header()
PLAIN = [
    Record(*encode(OffsetCommit(GroupId("g"), TopicName("t"), at, at, 0, "m", Millis(5))), 5)
    for at in range(40)
]
GONE = Record(*encode(OffsetTombstone(GroupId("g"), TopicName("t"), 3)), 5)
GROUP = Record(*encode(GroupTombstone(GroupId("g"))), 5)
SPOILT = PLAIN[0]._replace(value=b"\0\3\0")
NO_NAME = PLAIN[0]._replace(key=b"\0\1\0\1\xff\0\1t\0\0\0\1")
UNKNOWN = Record(b"\x0b\xb8\0\1g", b"\0\0", 5)


ENTRY = CatalogueEntry(GROUP_OFFSETS_TOPIC, TopicId(b"o" * 16), 4, {}, Millis(0))
ELSEWHERE = [
    Record(*encode(OffsetCommit(GroupId("billing"), TopicName("t"), at, at, 0, "", Millis(5))), 5)
    for at in range(3)
]


def found(*batches: list[Record]) -> tuple[list[Finding], int]:
    """Check these batches; return the findings and the number of records."""
    findings = Findings()
    strangers = Strangers(
        PartitionPlace(Path("a"), GROUP_OFFSETS_TOPIC, partition_for("g", 4), ENTRY), "group"
    )
    for check in (CoordinatorRecordCheck(findings, strangers), RecordCheck(findings)):
        at = 0
        for records in batches:
            data = encode_batch(records, base_offset=at)
            check.check("a.log", FoundBatch(at, read_header(data), memoryview(data)))
            at += len(records)
        check.finish("a")
    return findings.listed, findings.checked.records


@pytest.mark.parametrize(
    ("batches", "count"),
    [
        ([PLAIN, [GONE, *PLAIN, GROUP]], 0),
        ([[*PLAIN, SPOILT]], 1),
        ([[*PLAIN, NO_NAME, *PLAIN]], 1),
        ([[UNKNOWN, *PLAIN, UNKNOWN]], 1),
        ([[Record(*PLAIN[0][:2], 5, (TORN,))], PLAIN], 1),
        ([[*PLAIN, *ELSEWHERE]], 1),
        ([PLAIN, [Record(*PLAIN[0][:2], 5, (RunPlace(40, 0, 3).header(),))]], 1),
    ],
)
def test_findings_are_the_same_in_columns(
    batches: list[list[Record]], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of commits and other records, damaged ones, and commits that a crash cut."""
    in_columns = found(*batches)
    monkeypatch.setattr(verify_records, "_FEWEST_IN_COLUMNS", 1 << 30)
    assert in_columns == found(*batches)
    assert len(in_columns[0]) == count
