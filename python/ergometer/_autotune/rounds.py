"""Runs variants in rounds: each variant once per round, so that disturbances affect all variants alike."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ergometer import _native
from ergometer._autotune.progress import Progress
from ergometer._autotune.variants import Prepared


@dataclass(frozen=True)
class Plan:
    """The number of rounds, and the confidence level of the tests."""

    calls: int
    min_calls: int
    level: float
    seed: int

    def early_tests(self) -> list[int]:
        """The rounds after which to test whether the fastest variant is clear.

        Testing after every round finds a difference by chance: for two equal variants in 22 % of simulations of 8 to 50
        rounds. So there are few tests, at intervals that grow by half, and all tests share the error probability
        (`test_level`) with the final verdict: the error rate is then 2.5 %.

        Example:
            >>> Plan(calls=50, min_calls=8, level=0.95, seed=0).early_tests()
            [8, 12, 18, 27, 41]
        """
        rounds = []
        next_round = self.min_calls
        while next_round < self.calls:
            rounds.append(next_round)
            next_round = max(next_round + 1, math.ceil(next_round * 1.5))
        return rounds

    def test_level(self) -> float:
        """The confidence level of every early test, and of the final verdicts.

        By Bonferroni's inequality the error probability of all of them together is at most that of one test at `level`.
        With final verdicts at `level`, two equal variants were called clear in 6 % of simulations, more than the 5 %
        that `level` allows; with this level, in 2.5 %.

        Example:
            >>> round(Plan(calls=50, min_calls=8, level=0.95, seed=0).test_level(), 4)
            0.9917
            >>> Plan(calls=8, min_calls=8, level=0.95, seed=0).test_level()
            0.95
        """
        return 1 - (1 - self.level) / (len(self.early_tests()) + 1)


@dataclass(frozen=True)
class Rounds:
    """The result of the rounds.

    Attributes:
        wall_s: The wall time of every call in seconds, by name of the variants that did not fail.
        count: The number of rounds.
        was_clear: Whether the rounds ended early.
    """

    wall_s: dict[str, list[float]]
    count: int
    was_clear: bool


def run_rounds(prepared: list[Prepared], plan: Plan, report: Callable[[Progress], None]) -> Rounds:
    """Calls every variant once per round, in random order, and waits for each call.

    Ends early if, by wall times, all others are slower than the fastest. A variant that raises is not called again.
    """
    live = [one for one in prepared if one.call is not None]
    wall_s: dict[str, list[float]] = {one.variant.name: [] for one in live}
    shuffle = random.Random(plan.seed).shuffle
    early_tests = plan.early_tests()
    level = plan.test_level()
    count, was_clear = 0, False
    while count < plan.calls and live and not was_clear:
        order = list(live)
        shuffle(order)
        for one in order:
            try:
                wall_s[one.variant.name].append(_time_call(one))
            except Exception as cause:
                one.fail(cause)
                live.remove(one)
                del wall_s[one.variant.name]
        count += 1
        if wall_s:
            best_name = min(wall_s, key=lambda name: statistics.median(wall_s[name]))
            report(Progress("time", len(live), count, plan.calls, best_name, statistics.median(wall_s[best_name])))
        # A single variant has no comparison: it runs all calls.
        was_clear = count in early_tests and len(live) > 1 and is_clear(_native.rank({**wall_s}, level))
    return Rounds(wall_s, count, was_clear)


def ranked(seconds: dict[str, list[float]], plan: Plan) -> list[dict[str, Any]]:
    """Variants ranked by median, with verdicts at `plan.test_level()` and intervals at `plan.level`."""
    verdicts = {row["id"]: row["verdict"] for row in _native.rank({**seconds}, plan.test_level())}
    return [{**row, "verdict": verdicts[row["id"]]} for row in _native.rank({**seconds}, plan.level)]


def is_clear(ranking: list[dict[str, Any]]) -> bool:
    """Whether all variants except the first are significantly slower."""
    return all(row["verdict"] == "slower" for row in ranking[1:])


def _time_call(one: Prepared) -> float:
    assert one.call is not None
    start = time.perf_counter_ns()
    output = one.call()
    one.wait(output)
    return (time.perf_counter_ns() - start) / 1e9
