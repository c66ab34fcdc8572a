"""Programs with the Java client, in `java`, compiled against Kafka's own jars."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest
from bench.kafka.broker import TOOL_JVM, kafka_missing, with_class_archive
from bench.paths import BUILD, KAFKA_LIBS, KAFKA_POM

SOURCES = Path(__file__).parents[1] / "java"
CLASSES = BUILD / "compat-java"
COMPILE_TIMEOUT_S = 120
JVM_START_S = 40.0
"""What a JVM may need to start and join."""


def java_member_missing() -> str | None:
    """Why there can be no Java member here, in words for who has to change it; None if there can."""
    if problem := kafka_missing():
        return problem
    if shutil.which("javac") is None:
        return "a Java member has to be compiled: install a JDK (apt-get install openjdk-17-jdk-headless)"
    return None


needs_java_member = pytest.mark.skipif(java_member_missing() is not None, reason=java_member_missing() or "")


@cache
def _compiled(name: str) -> Path:
    """Where the class is; it is there as a whole or not at all, because several processes run these tests."""
    source = SOURCES / f"{name}.java"
    version = hashlib.sha256(source.read_bytes() + KAFKA_POM.read_bytes()).hexdigest()[:16]
    classes = CLASSES / f"{name}-{version}"
    if not classes.exists():
        CLASSES.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=CLASSES))
        command = ["javac", "-cp", f"{KAFKA_LIBS}/*", "-d", str(scratch), str(source)]
        subprocess.run(command, check=True, timeout=COMPILE_TIMEOUT_S)
        try:
            scratch.rename(classes)
        except OSError:
            if not classes.exists():
                raise
            shutil.rmtree(scratch)  # another process was first
    return classes


def java_member_command(asked: str) -> list[str]:
    """The command line of a member that is told what to do in JSON."""
    return java_command_of("GroupMember", asked)


def java_share_member_command(asked: str) -> list[str]:
    """The command line of a member of a share group."""
    return java_command_of("ShareMember", asked)


def java_command_of(name: str, asked: str) -> list[str]:
    """The command line of a class in `java`, which is told what to do in JSON."""
    class_path = f"{KAFKA_LIBS}/*{os.pathsep}{_compiled(name)}"
    return ["java", *with_class_archive(TOOL_JVM), "-cp", class_path, name, asked]
