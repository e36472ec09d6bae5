"""What tests of energy share: whether anything knows of it here, something to measure, and waiting for an event."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ergometer._native import Meter

needs_energy = pytest.mark.skipif(
    not Meter().has_energy, reason="nothing knows of energy on this machine, not even a model"
)


def work(seconds: float = 0.15) -> None:
    """Keeps a processor busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1000))


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Until something has come to be; the test fails where it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.05)
