"""`autotune`: which variant of a function is the fastest, by the time of the device, and how sure that is."""

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

    Each is compiled by JAX as `jit_autotune_fn_<id>` and warmed up. Then, in one session of the profiler, rounds follow
    in which every variant runs once, in a shuffled order. How long the device was busy with each call ranks them by the
    median; a rank test, corrected for the number of variants, says which are slower beyond chance.

    Rounds end early when the fastest is clear. The profiler tells device times only when its session ends, so wall
    times decide on that, and on nothing else: they have the host's part of a call in them. There are few looks, after
    `min_calls` rounds and each half as many again later: whoever looks after every round sees a difference in the end,
    where there is none. Whether it is clear in fact, the device times say. The looks and these verdicts share
    1 - `level` among them, in equal parts. So a verdict asks for more than an interval does, and that of a ratio may
    lie above 1 where the verdict is "too_close_to_call".

    Keywords of the variants go into `kwargs`, so that none of theirs can be one of these.

    Args:
        variants: By name; or functions, which are called by their names, with numbers where those are equal.
        args: What the variants are called with. Arrays are arguments of what is compiled, everything else is a constant
            of it. Arrays that a function closes over are constants too, and what depends on nothing else may be
            computed by the compiler: give them as arguments.
        kwargs: Keywords the variants are called with.
        calls: How often each is timed at most.
        min_calls: How often at least.
        warmup: How often each runs before.
        level: Of the intervals; 1 minus it is the chance, all looks and verdicts together, to call a variant slower
            that is not.
        check: How far the results of a variant may be from those of the first, as a part of its largest value: 1e-3. One
            that is farther off fails. None does not look: variants may be of different sizes.
        platform: Whose times count: "gpu", "tpu", "cpu"; by default where JAX computes.
        timer: "device"; "wall" for the clock of the host around each call, without JAX, functions as they are given;
            "device-or-wall" for wall times, with a warning, where there are none of the device.
        energy: Whether each variant runs for `energy_seconds` more, back to back, to measure the joules of a call:
            those of whole devices, with what they use when idle. None does where a sensor measures; True takes modelled
            energy too, and says so; False does not.
        energy_seconds: How long.
        progress: A line on standard error; by default where that is a terminal. Or a function that gets a `Progress`.
        trace_dir: Where to keep the profile; by default it goes away when it has been read.
        seed: Of the order in rounds.

    Returns:
        A `Tuning`. A variant that raises has a row with its error, and the others go on.

    Raises:
        ProfilingError: All variants failed, JAX is missing, a profiler's session is active already, or the trace has no
            times of any variant.
        ValueError: An argument is out of its range.

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
        raise ValueError(f"timer is {timer!r}. hint: one of {', '.join(map(repr, get_args(Timer)))}")
    for name, value, least in (("calls", calls, 1), ("min_calls", min_calls, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} is {value!r}: it is a whole number, at least {least}")
    if not 0 < level < 1:
        raise ValueError(f"level is {level}: it is between 0 and 1, such as 0.95")
    if check is not None and not check >= 0:
        raise ValueError(f"check is {check!r}: it is a part of the largest value from 0, such as 1e-3")
    if energy not in (None, True, False):
        raise ValueError(f"energy is {energy!r}. hint: True, False, or None for what a sensor measures")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs are the keywords of the variants by name, not {kwargs!r}")
    if energy is not False and not 0 < energy_seconds < float("inf"):
        raise ValueError(f"energy_seconds is {energy_seconds}: it is above 0")
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
        _failed(one.variant.id, one.variant.name, one.error, timed.timer)
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
        stopped=_why_stopped(timed, clear),
        timer=timed.timer,
        platform=timed.platform,
        level=level,
        trace=timed.trace,
    )


def _why_stopped(timed: Timed, clear: bool) -> str:
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


def _failed(number: int, name: str, error: str, timer: Any) -> Row:
    nothing: dict[str, Any] = dict.fromkeys(
        (
            *("median_s", "low_s", "high_s", "mean_s", "ratio", "ratio_low", "ratio_high"),
            *("joules_per_call", "joules_low", "joules_high", "energy_provenance", "energy_devices"),
            "energy_call_s",
        )
    )
    reason = "it failed"
    return Row(name=name, id=number, n=0, verdict="failed", energy_missing=reason, timer=timer, error=error, **nothing)
