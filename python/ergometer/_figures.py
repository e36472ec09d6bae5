"""Numbers as the commands print them: as many digits as tell something, units with their prefix."""

from __future__ import annotations

import math

# Arms of an interval that differ by less than this part of it are told as one margin.
_ALIKE = 0.08

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
    """A quantity in the prefix of its unit that fits it; `-` where there is none.

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
    """A quantity with its interval, in one unit: half of it where both arms are alike, else its two ends.

    >>> estimate(812.0, 802.8, 821.2, "J"), estimate(0.02, 0.0, 0.07, "J"), estimate(None, None, None, "J")
    ('812.0 J ± 9.2', '20 mJ (0 to 70)', '-')
    """
    if value is None or low is None or high is None:
        return quantity(value, unit)
    factor, prefix = _prefix(value if value else high, unit)
    value, low, high = value / factor, low / factor, high / factor
    half = (high - low) / 2
    # Two digits of the margin say all there is to say; the value has no more decimals than it.
    decimals = min(max(1 - math.floor(math.log10(half)), 0), 6) if half > 0 and math.isfinite(half) else 3
    if abs(high + low - 2 * value) <= _ALIKE * half * 2:
        return f"{value:.{decimals}f} {prefix}{unit} ± {half:.{decimals}f}"
    return f"{value:.{decimals}f} {prefix}{unit} ({low:.{decimals}f} to {high:.{decimals}f})"


def _prefix(value: float, unit: str) -> tuple[float, str]:
    """The factor and the prefix with which a value reads best. Seconds have none above one, ratios none at all.

    >>> _prefix(0.999, "s"), _prefix(0.999, "")
    ((0.001, 'm'), (1.0, ''))
    """
    magnitude = abs(value)
    if magnitude == 0 or not unit:
        return 1.0, ""
    for factor, prefix in _PREFIXES:
        # What four digits would round up to the next prefix has that one.
        if magnitude >= factor * 0.99995 and not (unit == "s" and factor > 1):
            return factor, prefix
    return _PREFIXES[-1]
