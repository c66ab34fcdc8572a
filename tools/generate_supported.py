"""Generate docs/supported.md: the registered APIs, and the clients of the compatibility tests.

Run it after a change of either: `python -m tools.generate_supported`. A test compares page and output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from bench.paths import KAFKA_POM
from tests.compat.conftest import DRIVERS
from tests.compat.support.driver import Can
from tests.compat.support.franz_go import franz_version
from tests.differential.accepted import NOT_SPOKEN

from headgate.api.registry import apis_by_key

PROJECT = Path(__file__).parent.parent
OUTPUT = PROJECT / "docs/supported.md"
NOT_ADVERTISED = {"Metrics of clients (KIP-714)": (71, 72)}
"""Keys of Kafka that a broker advertises only with a plugin that receives what they carry."""
FIRST_OF_OURS = 20_000
"""Kafka's API keys are smaller."""
OLDEST_JAVA = {
    0: (3, "0.11"),
    1: (4, "0.11"),
    2: (1, None),
    8: (2, None),
    9: (1, None),
    19: (2, "0.11"),
    20: (1, "0.11"),
    23: (2, "2.1"),
    27: (1, None),
    32: (1, "1.1"),
    35: (1, "2.0"),
}
"""The oldest version of each API of which Kafka 4 has removed some, and the first Java client that speaks it.

None: each client that speaks the oldest versions of Produce and Fetch does, or brokers alone."""
FIRST_WITHOUT_REMOVALS = 60
"""APIs from this key on are younger than the oldest client."""
ORDER = ("confluent-kafka", "kafka-python", "aiokafka", "kafkajs", "kcat")

HEAD = """# Supported APIs and clients

<!-- Written by tools/generate_supported.py; not to be edited. -->

These tables come from the registrations of the server and from the compatibility tests.
"""

APIS = """
## APIs

The ApiVersions response has the same list, but names Produce from version 0 on, as Kafka does
(KAFKA-18659). As in Kafka, a request of another API or version closes the connection.

| key | API | versions |
|---|---|---|
"""

OURS = """
### Beyond Kafka

Clients that do not know these APIs ignore them.

| key | API | versions |
|---|---|---|
"""

MISSING = """
### Not supported

| keys | why |
|---|---|
"""

CLIENTS = """
## Clients

Each *yes* is a test with the real library against a running server (`make compat`), which fails if it is
not true any more. What a library itself cannot do is a dash; kcat's membership in a group (`-G`) is tested,
too. The Java clients and Kafka's own tools of version {java} are tested by `tests/compat` and
`tests/differential`, franz-go {franz_go} (Go) by a program with transactions, all three kinds of groups,
and its administrator. Traps of each client are in [FINDINGS.md](../tests/compat/FINDINGS.md);
[differences.md](differences.md) lists where Headgate's answers differ from Kafka's.

Run by hand, not in the tests: Kafka Connect 4.3.1 in distributed mode. A file source and a file sink
moved all lines; they were paused, stopped and resumed, the sink was deleted, and their offsets were
altered and reset, by its REST API; after a worker was killed, a new one went on, with
`exactly.once.source.support=enabled`. MirrorMaker 2 is in [from-kafka.md](from-kafka.md).

"""

OLDEST = """
### The oldest clients

The oldest versions of the APIs are those of Kafka 4, which removed older ones (KIP-896): a client that is
new enough for Kafka 4 is new enough for Headgate. Java clients from 2.1 on have all APIs of the table, and
the oldest that produce and consume are those of 0.11. Run by hand were 0.11.0.3, 1.1.1, 2.0.1 and 2.1.1:
all produced, consumed in a group and had transactions. A client that is too old sees a closed connection,
or says itself that the broker is too new.

| API | oldest version | Java clients |
|---|---|---|
"""


def api_rows(*, is_ours: bool) -> Iterator[str]:
    """Yield a row for each registered API."""
    for key, api in sorted(apis_by_key().items()):
        if (key > FIRST_OF_OURS) == is_ours:
            versions = f"{api.min_version} to {api.max_version}"
            one = str(api.min_version)
            yield f"| {key} | {api.name} | {one if api.min_version == api.max_version else versions} |"


def client_rows() -> Iterator[str]:
    """Yield a table: a row for each ability, a column for each library."""
    yield f"| | {' | '.join(ORDER)} |"
    yield f"|---|{'---|' * len(ORDER)}"
    yield f"| version | {' | '.join(map(version_of, ORDER))} |"
    for ability in Can:
        cells = ("yes" if ability in DRIVERS[name].can else "-" for name in ORDER)
        yield f"| {ability.value} | {' | '.join(cells)} |"


def oldest_rows() -> Iterator[str]:
    """Yield a row for each API whose first versions are not supported.

    Fails where the oldest version is another one than that of which the first client is known.
    """
    for key, api in sorted(apis_by_key().items()):
        if api.min_version and key < FIRST_WITHOUT_REMOVALS:
            version, client = OLDEST_JAVA[key]
            assert version == api.min_version, f"{api.name} {api.min_version} of which client?"
            if client is not None:
                yield f"| {api.name} | {version} | {client} and later |"


def java_version() -> str:
    """Return the version of the Java clients and tools that the tests fetch."""
    found = re.search(r"<kafka.version>([\d.]+)<", KAFKA_POM.read_text())
    assert found is not None, f"{KAFKA_POM} has no version of Kafka"
    return found[1]


def version_of(name: str) -> str:
    """Return the version that the tests demand."""
    if name == "kafkajs":
        package = json.loads((PROJECT / "tests/compat/node/package.json").read_text())
        return str(package["dependencies"]["kafkajs"])
    if name == "kcat":
        return "Debian's"
    lines = (PROJECT / "pyproject.toml").read_text().splitlines()
    (demanded,) = {line.strip(' ",') for line in lines if line.strip(' "').startswith(f"{name}>=")}
    return f"{demanded.partition('>=')[2]} and later"


def generated() -> str:
    """Return the whole page."""
    unknown = NOT_SPOKEN | NOT_ADVERTISED
    versions = {
        "java": java_version(),
        "franz_go": franz_version(),
    }
    missing = [f"| {', '.join(map(str, keys))} | {why} |" for why, keys in unknown.items()]
    parts = [
        (APIS, api_rows(is_ours=False)),
        (OURS, api_rows(is_ours=True)),
        (MISSING, missing),
        (CLIENTS.format(**versions), client_rows()),
        (OLDEST, oldest_rows()),
    ]
    return HEAD + "".join(heading + "\n".join(rows) + "\n" for heading, rows in parts)


if __name__ == "__main__":
    OUTPUT.write_text(generated())
