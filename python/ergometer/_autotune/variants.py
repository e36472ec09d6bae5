"""Names variants, and prepares them for timing as calls without arguments."""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ergometer._device_sync import has_jax_array, wait_for_output, wait_for_torch
from ergometer.errors import with_hint


# The line of a traceback that names the exception.
_RAISED = re.compile(r"[\w.]*(Error|Exception|Interrupt|Warning)\b")


@dataclass(frozen=True)
class Variant:
    """One of the functions to compare."""

    id: int
    name: str
    given: Callable[..., Any]


@dataclass
class Prepared:
    """A variant that can be called, or the reason why it cannot."""

    variant: Variant
    call: Callable[[], Any] | None
    error: str | None = None
    _has_jax_array: bool | None = None

    def wait(self, output: Any) -> None:
        """Waits for the output of a call. Searches it for JAX arrays only once, because it may be a long list."""
        if self._has_jax_array is None:
            self._has_jax_array = has_jax_array(output)
        if self._has_jax_array:
            wait_for_output(output)
        else:
            wait_for_torch()

    def fail(self, cause: Exception) -> None:
        """Marks the variant as failed: it is not called again, and its row has the error."""
        self.call, self.error = None, describe(cause)


def describe(cause: Exception) -> str:
    """An exception in one line. Exceptions of JAX have many lines. If a callback raised, the last line that names an
    exception is that of the callback.

    Raises:
        KeyboardInterrupt: JAX turned Ctrl-C in a callback into another exception.
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
    """Variants with names: the keys of the dictionary, or the names of the functions, numbered if they are equal.

    Raises:
        TypeError: A variant is not callable, or a name is not a string.
        ValueError: There are no variants.

    Example:
        >>> [variant.name for variant in name_variants([max, min, max])]
        ['max_1', 'min', 'max_2']
    """
    if isinstance(variants, Mapping):
        named = list(variants.items())
    elif callable(variants):
        raise TypeError(with_hint("variants must be several functions", "autotune([function, other], arguments)"))
    else:
        given = list(variants)
        named = list(zip(_distinct([_function_name(function) for function in given]), given, strict=True))
    if not named:
        raise ValueError(with_hint("there are no variants to compare", "autotune({'name': function, ...}, arguments)"))
    for name, function in named:
        if not isinstance(name, str):
            raise TypeError(f"the name of a variant must be a string, not {name!r}")
        if not callable(function):
            raise TypeError(f"variant {name!r} is not callable: its type is {type(function).__name__}")
    return [Variant(number, name, function) for number, (name, function) in enumerate(named)]


def _function_name(function: Any) -> str:
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
    report: Callable[[Variant], None],
) -> list[Prepared]:
    """Binds each variant to its arguments and runs it `warmup` times, so that compilation and cold caches are not
    timed.

    A variant that raises is marked as failed; the others continue.
    """
    prepared = []
    for variant in variants:
        report(variant)
        one = Prepared(variant, None)
        try:
            one.call = bind(variant)
            for _ in range(warmup):
                one.wait(one.call())
        except Exception as cause:
            one.fail(cause)
        prepared.append(one)
    return prepared


def uncompiled(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[Variant], Callable[[], Any]]:
    """Binds variants to their arguments without compiling them."""
    return lambda variant: functools.partial(variant.given, *args, **kwargs)


def compiled(
    jax: ModuleType, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Callable[[Variant], Callable[[], Any]]:
    """Compiles variants, each as a separate module named `jit_autotune_fn_<id>`.

    A `jax.jit` inside a variant is inlined. Arrays are arguments of the module, and on the device before the first
    call; everything else is a constant, so that static arguments stay static.
    """
    import numpy

    leaves, tree = jax.tree_util.tree_flatten((args, dict(kwargs)))
    positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, numpy.ndarray))]
    arrays = [jax.numpy.asarray(leaves[position]) for position in positions]

    def bind(variant: Variant) -> Callable[[], Any]:
        def function(*traced: Any) -> Any:
            filled = list(leaves)
            for position, value in zip(positions, traced, strict=True):
                filled[position] = value
            call_args, call_kwargs = jax.tree_util.tree_unflatten(tree, filled)
            return variant.given(*call_args, **call_kwargs)

        function.__name__ = function.__qualname__ = f"autotune_fn_{variant.id}"
        call = functools.partial(jax.jit(function), *arrays)
        wait_for_output(call())  # Compiles here, even without warm-up.
        return call

    return bind
