"""An archive of the classes of a node, beside its jars: JVMs that take them from it start in half the time.

`make kafka` writes it. A JVM checks that it is of the same Java and the same jars, or reads the jars.
"""

from __future__ import annotations

import subprocess

from bench.kafka.broker import BRIEF_JVM, CLASS_ARCHIVE, KafkaUnavailable, java_command, kafka_node

CHECK_TIMEOUT_S = 60


def archive_classes() -> str:
    """Have a node write the classes that it loaded when it stops; return one line with the result."""
    if CLASS_ARCHIVE.exists():
        return f"The archive of its classes is already in {CLASS_ARCHIVE}"
    written = CLASS_ARCHIVE.with_suffix(".written")
    written.unlink(missing_ok=True)
    try:
        with kafka_node(jvm=(*BRIEF_JVM, f"-XX:ArchiveClassesAtExit={written}", "-Xlog:disable")):
            pass
    except KafkaUnavailable as why:
        return f"There is no archive of its classes: {why}"
    if not _is_whole(written.name):
        return "There is no archive of its classes: this Java writes none"
    written.rename(CLASS_ARCHIVE)
    return f"The archive of its classes is {CLASS_ARCHIVE}"


def _is_whole(name: str) -> bool:
    """Return whether a JVM that must use the archive starts."""
    jvm = (f"-XX:SharedArchiveFile={CLASS_ARCHIVE.with_name(name)}", "-Xshare:on", *BRIEF_JVM)
    command = java_command("kafka.tools.StorageTool", "random-uuid", jvm=jvm)
    done = subprocess.run(command, capture_output=True, timeout=CHECK_TIMEOUT_S, check=False)
    return done.returncode == 0
