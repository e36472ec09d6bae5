"""Shared by tests of energy: a mark that skips without energy, work to measure, and waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from ergometer._native import Meter

needs_energy = pytest.mark.skipif(
    not Meter().has_energy, reason="energy is neither measured nor modelled on this machine"
)


def work(seconds: float = 0.15) -> None:
    """Keeps a CPU core busy."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1000))


def wait_for(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Waits until a condition holds; fails the test after a timeout."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timeout"
        time.sleep(0.05)
