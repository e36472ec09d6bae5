"""What tests of tuning share: variants whose times are far apart."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax


def product(size: int) -> Callable[[jax.Array], jax.Array]:
    def function(x: jax.Array) -> jax.Array:
        corner = x[:size, :size]
        return corner @ corner

    return function


def count_to(number: int) -> int:
    return sum(range(number))


FAR_APART = {"short": functools.partial(count_to, 10), "long": functools.partial(count_to, 100_000)}
