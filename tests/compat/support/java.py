"""Programs with the Java client, in `java`, compiled against Kafka's own jars."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from bench.kafka.broker import TOOL_JVM, kafka_missing, with_class_archive
from bench.paths import BUILD, KAFKA_LIBS

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
    """Where the class is, compiled once a run."""
    CLASSES.mkdir(parents=True, exist_ok=True)
    command = ["javac", "-cp", f"{KAFKA_LIBS}/*", "-d", str(CLASSES), str(SOURCES / f"{name}.java")]
    subprocess.run(command, check=True, timeout=COMPILE_TIMEOUT_S)
    return CLASSES


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
