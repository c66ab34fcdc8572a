"""What an installation does when it cannot compile."""

from __future__ import annotations

import runpy
import sysconfig
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("hatchling", reason="the hook is a part of a build by hatchling")

TOOLS = Path(__file__).parents[2] / "tools"


class Warnings:
    """The part of hatchling's application that the hook uses."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display_warning(self, text: str) -> None:
        self.texts.append(text)


def initialize(directory: Path, warnings: Warnings) -> dict[str, Any]:
    """Run the hook as a build of a wheel does; return the build's data."""
    hook_class = runpy.run_path(str(TOOLS / "build_hook.py"))["CompileHook"]
    build_data: dict[str, Any] = {"force_include": {}}
    hook = hook_class(str(directory), {"compiled": []}, None, None, str(directory), "wheel", warnings)
    hook.initialize("standard", build_data)
    return build_data


@pytest.fixture
def no_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Python without its headers, as Debian's `python3` without `python3-dev`; return where they would be."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / name))
    return tmp_path / "include" / "Python.h"


def test_missing_headers_are_named_with_their_package(
    no_headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where compilation is required, the build ends with that, and before anything is translated to C."""
    monkeypatch.setenv("HEADGATE_COMPILE", "yes")
    with pytest.raises(RuntimeError, match=f"there is no {no_headers}. .* python3-dev"):
        initialize(tmp_path, Warnings())


def test_without_headers_it_is_installed_uncompiled(
    no_headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where compilation is only wished, the build says why it is not, and goes on with nothing to include."""
    monkeypatch.delenv("HEADGATE_COMPILE", raising=False)
    warnings = Warnings()
    assert initialize(tmp_path, warnings) == {"force_include": {}}
    assert "python3-dev" in warnings.texts[0]
    assert warnings.texts[0].endswith("It is installed as it is, and is slower.")
