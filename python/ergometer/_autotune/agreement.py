"""Compares the results of variants."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ergometer._autotune.variants import Prepared


def fail_different(prepared: list[Prepared], tolerance: float) -> None:
    """Fails variants whose results differ from those of the first by more than `tolerance` times its largest value."""
    live = [one for one in prepared if one.call is not None]
    if not live or live[0].call is None:
        return
    expected = live[0].call()
    for one in live[1:]:
        assert one.call is not None
        try:
            distance = relative_difference(expected, one.call())
        except Exception as cause:
            one.fail(cause)
            continue
        if not distance <= tolerance:
            by = "in shape or type" if math.isinf(distance) else f"by {distance:.2g} of the largest value"
            first = live[0].variant.name
            one.call, one.error = None, f"its results differ from those of {first} {by}; check={tolerance:g} allows less"


def relative_difference(expected: Any, actual: Any) -> float:
    """The largest difference of two outputs, relative to the largest value of the first.

    Infinite if they cannot be compared.

    >>> relative_difference([1.0, 4.0], [1.0, 5.0])
    0.25
    >>> relative_difference({"a": 1}, {"b": 1})
    inf
    """
    ours, theirs = list(_leaves(expected)), list(_leaves(actual))
    if [path for path, _ in ours] != [path for path, _ in theirs]:
        return math.inf
    distances = [_distance(one, other) for (_, one), (_, other) in zip(ours, theirs, strict=True)]
    largest = max((size for _, size in distances), default=0.0)
    farthest = max((difference for difference, _ in distances), default=0.0)
    if farthest == 0.0:
        return 0.0
    return farthest / largest if largest > 0.0 else math.inf


def _leaves(output: Any, path: tuple[object, ...] = ()) -> Iterator[tuple[tuple[object, ...], Any]]:
    if isinstance(output, Mapping):
        for name in sorted(output, key=repr):
            yield from _leaves(output[name], (*path, name))
    elif isinstance(output, (list, tuple)):
        for number, part in enumerate(output):
            yield from _leaves(part, (*path, number))
    else:
        yield path, output


def _distance(one: Any, other: Any) -> tuple[float, float]:
    """The largest difference, and the largest value of the first."""
    if not any(_is_array(value) for value in (one, other)):
        if isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return (0.0 if one == other or (one != one and other != other) else abs(one - other)), abs(one)
        return (0.0 if one == other else math.inf), 0.0
    import numpy

    ours, theirs = _as_numpy(one), _as_numpy(other)
    if ours.shape != theirs.shape:
        return math.inf, 0.0
    if ours.size == 0:
        return 0.0, 0.0
    same = (ours == theirs) | (numpy.isnan(ours) & numpy.isnan(theirs))
    with numpy.errstate(invalid="ignore"):  # The difference of two infinities is NaN; they are equal.
        difference = numpy.where(same, 0.0, numpy.abs(ours - theirs))
    finite = ours[numpy.isfinite(ours)]
    largest = float(numpy.abs(finite).max()) if finite.size else 0.0
    farthest = float(difference.max())
    return (farthest if math.isfinite(farthest) else math.inf), largest


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "detach")


def _as_numpy(value: Any) -> Any:
    import numpy

    if hasattr(value, "detach"):  # A torch tensor may be on a GPU, or of a type that numpy does not support.
        value = value.detach().cpu().double().numpy()
    array = numpy.asarray(value)
    return array.astype(numpy.complex128 if array.dtype.kind == "c" else numpy.float64)
