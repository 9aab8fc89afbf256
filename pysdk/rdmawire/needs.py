"""Capabilities that test cases and tests require of a device."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping

from rdmawire import _core
from rdmawire.names import require_known

__all__ = ["NEEDS", "needs_mask"]

#: Capabilities by name, as bits of a mask.
NEEDS: Mapping[str, int] = types.MappingProxyType(_core._needs())


def needs_mask(names: Iterable[str]) -> int:
    """Return the mask of these capabilities. Raises UsageError for unknown names."""
    mask = 0
    for name in names:
        mask |= NEEDS[require_known("need", name, NEEDS)]
    return mask
