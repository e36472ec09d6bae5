"""Variants get a name and a number, and become calls without arguments that are ready to be timed."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ergometer._device_sync import is_of_jax, wait_for_output, wait_for_torch


# The line of a traceback that names what was raised.
_RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt|Warning)\b")


@dataclass(frozen=True)
class Variant:
    """One of those that are compared, as it was given."""

    id: int
    name: str
    given: Callable[..., Any]


@dataclass
class Prepared:
    """A variant that can be called; or the reason why it cannot."""

    variant: Variant
    call: Callable[[], Any] | None
    error: str | None = None
    _is_of_jax: bool | None = None

    def wait(self, output: Any) -> None:
        """Waits for the output of a call. Whether that has arrays of JAX is looked up once: it may be a long list."""
        if self._is_of_jax is None:
            self._is_of_jax = is_of_jax(output)
        if self._is_of_jax:
            wait_for_output(output)
        else:
            wait_for_torch()

    def fail(self, cause: Exception) -> None:
        """It raised: it is not called again, and its row says why."""
        self.call, self.error = None, describe(cause)


def describe(cause: Exception) -> str:
    """An exception in one line. Those of JAX go on for many, and have that of a callback at their end.

    Raises:
        KeyboardInterrupt: It was one. Of Ctrl-C in a callback JAX makes an error that only has its text.
    """
    lines = [line.strip() for line in str(cause).splitlines() if line.strip()]
    if not lines:
        return type(cause).__name__
    has_traceback = "Traceback (most recent call last)" in str(cause)
    raised = [line for line in lines if _RAISED.match(line)] if has_traceback else []
    if any(line.startswith("KeyboardInterrupt") for line in raised):
        raise KeyboardInterrupt from cause
    return f"{type(cause).__name__}: {raised[-1] if raised else lines[0]}"


def name_variants(variants: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]]) -> list[Variant]:
    """Variants with their names: those of the mapping, or of the functions, numbered where they are equal.

    Raises:
        TypeError: One cannot be called, or a name is no text.
        ValueError: There are none.

    Example:
        >>> [variant.name for variant in name_variants([max, min, max])]
        ['max_1', 'min', 'max_2']
    """
    if isinstance(variants, Mapping):
        named = list(variants.items())
    elif callable(variants):
        raise TypeError("one function is nothing to compare. hint: autotune([function, other], arguments)")
    else:
        given = list(variants)
        named = list(zip(_distinct([_name_of(function) for function in given]), given, strict=True))
    if not named:
        raise ValueError("no variants to compare. hint: autotune({'name': function, ...}, arguments)")
    for name, function in named:
        if not isinstance(name, str):
            raise TypeError(f"the name of a variant is a text, not {name!r}")
        if not callable(function):
            raise TypeError(f"variant {name!r} cannot be called: it is of type {type(function).__name__}")
    return [Variant(number, name, function) for number, (name, function) in enumerate(named)]


def _name_of(function: Any) -> str:
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return str(getattr(inner, "__name__", type(inner).__name__))


def _distinct(names: list[str]) -> list[str]:
    counts = collections.Counter(names)
    taken = {name for name, count in counts.items() if count == 1}
    distinct = []
    for name in names:
        number = 0
        chosen = name
        while counts[name] > 1 and (number == 0 or chosen in taken):
            number += 1
            chosen = f"{name}_{number}"
        taken.add(chosen)
        distinct.append(chosen)
    return distinct


def prepare(
    variants: list[Variant],
    bind: Callable[[Variant], Callable[[], Any]],
    warmup: int,
    tell: Callable[[Variant], None],
) -> list[Prepared]:
    """Binds each variant and runs it `warmup` times, so that neither compilation nor cold caches are timed.

    What raises becomes a reason, and the others go on.
    """
    prepared = []
    for variant in variants:
        tell(variant)
        one = Prepared(variant, None)
        try:
            one.call = bind(variant)
            for _ in range(warmup):
                one.wait(one.call())
        except Exception as cause:
            one.fail(cause)
        prepared.append(one)
    return prepared


def as_given(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[Variant], Callable[[], Any]]:
    """Variants are called as they are."""
    return lambda variant: functools.partial(variant.given, *args, **kwargs)


def compiled(
    jax: ModuleType, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Callable[[Variant], Callable[[], Any]]:
    """Variants are compiled, each as a module of its own by the name of `jit_autotune_fn_<id>`.

    A `jax.jit` inside is inlined. Arrays are arguments of the module and on the device before the first call;
    everything else is a constant, so that what a variant treats as static stays so.
    """
    import numpy

    leaves, tree = jax.tree_util.tree_flatten((args, dict(kwargs)))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, numpy.ndarray))]
    arrays = [jax.numpy.asarray(leaves[place]) for place in places]

    def bind(variant: Variant) -> Callable[[], Any]:
        def function(*traced: Any) -> Any:
            filled = list(leaves)
            for place, value in zip(places, traced, strict=True):
                filled[place] = value
            call_args, call_kwargs = jax.tree_util.tree_unflatten(tree, filled)
            return variant.given(*call_args, **call_kwargs)

        function.__name__ = function.__qualname__ = f"autotune_fn_{variant.id}"
        call = functools.partial(jax.jit(function), *arrays)
        wait_for_output(call())  # It is compiled here, whatever the warm-up.
        return call

    return bind
