"""A call that has returned may have been only asked for: waiting until its result is there."""

from __future__ import annotations

import sys
from typing import Any


def wait_for(output: Any) -> None:
    """Returns when the output of a call has been computed. Libraries that are not loaded have nothing to wait for."""
    jax = sys.modules.get("jax")
    if hasattr(jax, "block_until_ready"):
        jax.block_until_ready(output)  # type: ignore[union-attr]
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()
