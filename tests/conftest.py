"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from headgate.compiled import build_text, is_compiled

# How long an example takes tells how busy the machine is, and nothing of the code.
settings.register_profile("headgate", deadline=None)
settings.load_profile("headgate")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--compiled", action="store_true", help="test an installation with compiled modules, or fail"
    )
    parser.addoption(
        "--hostile-seconds", type=float, default=6.0, help="how long each of tests/hostile attacks (6)"
    )
    parser.addoption(
        "--hostile-seed", type=int, default=0, help="what tests/hostile draws from; printed where one fails"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("compiled") and not is_compiled():
        raise pytest.UsageError(
            "--compiled: the headgate that is found here is not (make compiled makes one)"
        )


def pytest_report_header() -> str:
    return f"headgate: {build_text()}"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if is_compiled() and item.get_closest_marker("interpreted"):
        pytest.skip("replaces or copies what is fixed in compiled modules")
