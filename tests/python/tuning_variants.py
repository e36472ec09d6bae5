"""Shared by tests of tuning: variants with very different times."""

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
