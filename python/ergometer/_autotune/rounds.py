"""Rounds, in each of which every variant runs once: what disturbs the machine for a while disturbs them all."""

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
    """How many rounds there are, and how sure one has to be to call a variant slower."""

    calls: int
    min_calls: int
    level: float
    seed: int

    def looks(self) -> list[int]:
        """After which rounds to look whether it is clear.

        Whoever looks after every round finds a difference by chance in the end: of two equal variants in 22 % of
        simulations of 8 to 50 rounds. So there are few looks, each half as many rounds again after the one before, and
        all of them and the verdict at the end share the chance of being wrong (`level_of_each`): then it is 2.5 %.

        Example:
            >>> Plan(calls=50, min_calls=8, level=0.95, seed=0).looks()
            [8, 12, 18, 27, 41]
        """
        looks = []
        next_look = self.min_calls
        while next_look < self.calls:
            looks.append(next_look)
            next_look = max(next_look + 1, math.ceil(next_look * 1.5))
        return looks

    def level_of_each(self) -> float:
        """The level of every look, and of the verdicts at the end.

        By Bonferroni's inequality all of them together are wrong as often at most as one at `level` is. What a look has
        used up is not there at the end again: with verdicts at `level` itself two equal variants came out as clear in
        6 % of simulations, where 5 % were meant.

        Example:
            >>> round(Plan(calls=50, min_calls=8, level=0.95, seed=0).level_of_each(), 4)
            0.9917
            >>> Plan(calls=8, min_calls=8, level=0.95, seed=0).level_of_each()
            0.95
        """
        return 1 - (1 - self.level) / (len(self.looks()) + 1)


@dataclass(frozen=True)
class Rounds:
    """What the rounds gave.

    Attributes:
        wall_s: Seconds of every call by the name of the variant, of those that did not fail.
        count: How many rounds there were.
        was_clear: Whether they ended early.
    """

    wall_s: dict[str, list[float]]
    count: int
    was_clear: bool


def run_rounds(prepared: list[Prepared], plan: Plan, report: Callable[[Progress], None]) -> Rounds:
    """Calls every variant once a round, in a shuffled order, and waits for each.

    Ends early when by wall times all others are slower than the fastest. A variant that raises is not called again.
    """
    live = [one for one in prepared if one.call is not None]
    wall_s: dict[str, list[float]] = {one.variant.name: [] for one in live}
    shuffle = random.Random(plan.seed).shuffle
    looks = plan.looks()
    level_of_look = plan.level_of_each()
    count, was_clear = 0, False
    while count < plan.calls and live and not was_clear:
        order = list(live)
        shuffle(order)
        for one in order:
            try:
                wall_s[one.variant.name].append(_seconds_of(one))
            except Exception as cause:
                one.fail(cause)
                live.remove(one)
                del wall_s[one.variant.name]
        count += 1
        if wall_s:
            best_name = min(wall_s, key=lambda name: statistics.median(wall_s[name]))
            report(Progress("time", len(live), count, plan.calls, best_name, statistics.median(wall_s[best_name])))
        # One alone has nobody to be compared with: all its calls are wanted.
        was_clear = count in looks and len(live) > 1 and is_clear(_native.rank({**wall_s}, level_of_look))
    return Rounds(wall_s, count, was_clear)


def ranked(seconds: dict[str, list[float]], plan: Plan) -> list[dict[str, Any]]:
    """Variants by their medians, with verdicts at the level that the looks left, and intervals at the level itself."""
    verdicts = {row["id"]: row["verdict"] for row in _native.rank({**seconds}, plan.level_of_each())}
    return [{**row, "verdict": verdicts[row["id"]]} for row in _native.rank({**seconds}, plan.level)]


def is_clear(ranking: list[dict[str, Any]]) -> bool:
    """Whether all but the first are slower."""
    return all(row["verdict"] == "slower" for row in ranking[1:])


def _seconds_of(one: Prepared) -> float:
    assert one.call is not None
    start = time.perf_counter_ns()
    output = one.call()
    one.wait(output)
    return (time.perf_counter_ns() - start) / 1e9
