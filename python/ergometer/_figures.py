"""Formats numbers like the commands do: with significant digits only, and units with a prefix."""

from __future__ import annotations

import math

# Both sides of an interval that differ by less than this fraction of its width are printed as one margin.
_SYMMETRY_TOLERANCE = 0.08

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def digits(value: float) -> str:
    """A number with about four significant digits.

    >>> [digits(value) for value in (1234.6, 123.46, 12.346, 1.2346)]
    ['1235', '123.5', '12.35', '1.235']
    """
    magnitude = abs(value)
    if magnitude >= 1e15:
        return f"{value:.3e}"
    decimals = 0 if magnitude >= 1000 else 1 if magnitude >= 100 else 2 if magnitude >= 10 else 3
    return f"{value:.{decimals}f}"


def quantity(value: float | None, unit: str) -> str:
    """A quantity with a prefix that fits its size; `-` for None.

    >>> quantity(0.004151, "s"), quantity(643.0, "W"), quantity(1204.0, "J"), quantity(None, "J")
    ('4.151 ms', '643.0 W', '1.204 kJ', '-')
    """
    if value is None:
        return "-"
    if value == 0:
        return f"0 {unit}"
    factor, prefix = _prefix(value, unit)
    return f"{digits(value / factor)} {prefix}{unit}"


def estimate(value: float | None, low: float | None, high: float | None, unit: str) -> str:
    """A quantity with its interval in the same unit: as a margin if the interval is symmetric, else as its two ends.

    >>> estimate(812.0, 802.8, 821.2, "J"), estimate(0.02, 0.0, 0.07, "J"), estimate(None, None, None, "J")
    ('812.0 J ± 9.2', '20 mJ (0 to 70)', '-')
    """
    if value is None or low is None or high is None:
        return quantity(value, unit)
    factor, prefix = _prefix(value if value else high, unit)
    value, low, high = value / factor, low / factor, high / factor
    half = (high - low) / 2
    # The margin has two significant digits, and the value as many decimals as the margin.
    decimals = min(max(1 - math.floor(math.log10(half)), 0), 6) if half > 0 and math.isfinite(half) else 3
    if abs(high + low - 2 * value) <= _SYMMETRY_TOLERANCE * half * 2:
        return f"{value:.{decimals}f} {prefix}{unit} ± {half:.{decimals}f}"
    return f"{value:.{decimals}f} {prefix}{unit} ({low:.{decimals}f} to {high:.{decimals}f})"


def _prefix(value: float, unit: str) -> tuple[float, str]:
    """The factor and the prefix for a value. Seconds have no prefix above one, ratios have no prefix.

    >>> _prefix(0.999, "s"), _prefix(0.999, "")
    ((0.001, 'm'), (1.0, ''))
    """
    magnitude = abs(value)
    if magnitude == 0 or not unit:
        return 1.0, ""
    for factor, prefix in _PREFIXES:
        # A value that four digits would round up to the next prefix gets that prefix.
        if magnitude >= factor * 0.99995 and not (unit == "s" and factor > 1):
            return factor, prefix
    return _PREFIXES[-1]
