"""`autotune`: finds the fastest variant of a function by device time, with a statistical test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from ergometer import _native
from ergometer._autotune.energy import CallEnergy, measure_energy
from ergometer._autotune.progress import Progress, Reporter
from ergometer._autotune.result import Row, Tuning
from ergometer._autotune.rounds import Plan, is_clear, ranked
from ergometer._autotune.session import Session, Timed, Timer
from ergometer._autotune.variants import name_variants

__all__ = ["Progress", "Row", "Tuning", "autotune"]


def autotune(
    variants: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]],
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    calls: int = 50,
    min_calls: int = 8,
    warmup: int = 3,
    level: float = 0.95,
    check: float | None = None,
    platform: str | None = None,
    timer: Timer = "device",
    energy: bool | None = None,
    energy_seconds: float = 1.0,
    progress: bool | Callable[[Progress], None] | None = None,
    trace_dir: str | PathLike[str] | None = None,
    seed: int = 0,
) -> Tuning:
    """Finds the fastest of several variants of a function.

    JAX compiles each variant as `jit_autotune_fn_<id>` and warms it up. Then all variants run in rounds, in one session
    of the profiler: in each round every variant runs once, in random order. Variants are ranked by the median device
    busy time of a call. A rank test, corrected for the number of variants, decides which ones are significantly slower.

    Rounds end early when the fastest variant is clear. Device times are only available when the profiler's session
    ends, so this decision uses wall times, which include host time; nothing else uses them. The test runs only a few times,
    first after `min_calls` rounds, then at intervals that grow by half: testing after every round would find a
    difference by chance. The final verdicts use device times. The early tests and the final verdicts share the error
    probability 1 - `level` equally. A verdict is therefore stricter than an interval: the interval of a ratio can lie
    above 1 while the verdict is "too_close_to_call".

    Keyword arguments of the variants go into `kwargs`, so that they cannot conflict with those of `autotune`.

    Args:
        variants: A dictionary of functions by name, or a list of functions, named after the functions; equal
            names are numbered.
        args: Positional arguments of the variants. Arrays become arguments of the compiled function, everything else
            becomes a constant. Pass arrays as arguments: if a function closes over an array, the compiler may
            compute in advance what depends on that array only.
        kwargs: Keyword arguments of the variants.
        calls: Maximum number of timed calls of each variant.
        min_calls: Minimum number of timed calls of each variant.
        warmup: Number of warm-up calls of each variant.
        level: Confidence level of the intervals. All tests share the error probability 1 - `level`: the probability
            that any of them calls a variant slower although it is not. It can be somewhat higher, because the fastest
            variant is chosen from the same data.
        check: Maximum difference between the results of a variant and those of the first one, relative to the largest
            value of the first, such as 1e-3. A variant with a larger difference fails. None does not compare results.
        platform: The platform whose times count: "gpu", "tpu", "cpu"; by default the default backend of JAX.
        timer: "device"; "wall" for the host's clock around each call, without JAX and without compiling;
            "device-or-wall" for wall times, with a warning, if there are no device times.
        energy: Whether to run each variant for another `energy_seconds`, back to back, to measure the energy of a call:
            that of whole devices, including their idle power. None does so if a sensor measures energy; True also
            accepts modelled energy, and marks it; False does not measure energy.
        energy_seconds: How long to run each variant for its energy.
        progress: Whether to print progress on standard error, by default if that is a terminal; or a function that gets
            a `Progress`.
        trace_dir: Where to keep the profile; by default it is deleted after reading.
        seed: Random seed of the order in rounds.

    Returns:
        A `Tuning`. A variant that raises an exception has a row with its error; the others continue.

    Raises:
        ProfilingError: All variants failed, JAX is missing, another profiler session is active, or the trace has no
            times of any variant.
        ValueError: An argument is out of range.

    Example:
        >>> import jax.numpy as jnp
        >>> variants = {"matmul": lambda x: x @ x @ x, "einsum": lambda x: jnp.einsum("ij,jk,kl->il", x, x, x)}
        >>> tuning = autotune(variants, jnp.ones((64, 64)), calls=10)
        >>> tuning.best is variants[tuning.best_name]
        True
        >>> print(tuning)  # doctest: +ELLIPSIS
          variant  calls ...
    """
    if timer not in get_args(Timer):
        raise ValueError(f"timer must be one of {', '.join(map(repr, get_args(Timer)))}, not {timer!r}")
    for name, value, least in (("calls", calls, 1), ("min_calls", min_calls, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}")
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, such as 0.95, not {level}")
    if check is not None and not check >= 0:
        raise ValueError(f"check must be a relative difference of 0 or more, such as 1e-3, not {check!r}")
    if energy not in (None, True, False):
        raise ValueError(f"energy must be True, False, or None, not {energy!r}")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a dictionary of keyword arguments of the variants, not {kwargs!r}")
    if energy is not False and not 0 < energy_seconds < float("inf"):
        raise ValueError(f"energy_seconds must be above 0, not {energy_seconds}")
    plan = Plan(calls, min_calls, level, seed)
    with Reporter(progress) as report:
        session = Session(
            variants=name_variants(variants),
            args=args,
            kwargs=kwargs or {},
            plan=plan,
            warmup=warmup,
            platform=platform,
            trace_dir=None if trace_dir is None else Path(trace_dir),
            report=report,
            check=check,
        )
        timed = session.time(timer)
        ranking = ranked(timed.seconds, plan)
        medians = {row["id"]: row["median_s"] for row in ranking}
        energies = measure_energy(timed.prepared, medians, energy, energy_seconds, timed.platform, report)
    return _tuning(timed, ranking, energies, level)


def _tuning(timed: Timed, ranking: list[dict[str, Any]], energies: dict[str, CallEnergy], level: float) -> Tuning:
    by_name = {one.variant.name: one for one in timed.prepared}
    rows = [_row(timed, by_name[row["id"]].variant.id, row, energies[row["id"]], level) for row in ranking]
    failed = [
        _failed_row(one.variant.id, one.variant.name, one.error, timed.timer)
        for one in timed.prepared
        if one.error is not None
    ]
    clear = is_clear(ranking)
    best = rows[0].name
    return Tuning(
        best=by_name[best].variant.given,
        best_name=best,
        is_clear=clear,
        rows=[*rows, *failed],
        stopped=_stop_reason(timed, clear),
        timer=timed.timer,
        platform=timed.platform,
        level=level,
        trace=timed.trace,
    )


def _stop_reason(timed: Timed, clear: bool) -> str:
    count = timed.rounds.count
    if not timed.rounds.was_clear:
        return f"all {count} calls" if count > 1 else "1 call"
    if not clear:
        return f"clear after {count} calls by wall times, not by {timed.timer} times"
    return f"clear after {count} calls"


def _row(timed: Timed, number: int, compared: dict[str, Any], energy: CallEnergy, level: float) -> Row:
    name = compared["id"]
    summary = _native.summarize(timed.seconds[name], level)
    return Row(
        name=name,
        id=number,
        n=summary["n"],
        median_s=summary["median_s"],
        low_s=summary["median_low_s"],
        high_s=summary["median_high_s"],
        mean_s=summary["mean_s"],
        ratio=compared["ratio"],
        ratio_low=compared["ratio_low"],
        ratio_high=compared["ratio_high"],
        verdict=compared["verdict"],
        joules_per_call=energy.joules,
        joules_low=energy.low,
        joules_high=energy.high,
        energy_provenance=energy.provenance,
        energy_devices=energy.devices,
        energy_call_s=energy.call_s,
        energy_missing=energy.missing,
        timer=timed.timer,
        error=None,
    )


def _failed_row(number: int, name: str, error: str, timer: Any) -> Row:
    nothing: dict[str, Any] = dict.fromkeys(
        (
            *("median_s", "low_s", "high_s", "mean_s", "ratio", "ratio_low", "ratio_high"),
            *("joules_per_call", "joules_low", "joules_high", "energy_provenance", "energy_devices"),
            "energy_call_s",
        )
    )
    reason = "it failed"
    return Row(name=name, id=number, n=0, verdict="failed", energy_missing=reason, timer=timer, error=error, **nothing)
