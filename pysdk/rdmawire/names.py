"""Names in arguments: lists of names, and suggestions for unknown ones."""

from __future__ import annotations

from collections.abc import Iterable

from rdmawire import _core
from rdmawire._core import UsageError

__all__ = ["did_you_mean", "list_of_faults", "list_of_names", "require_known"]


def list_of_names(names: str | Iterable[str]) -> list[str]:
    """Split a str at blanks, commas and vertical bars. Other iterables become a list."""
    if isinstance(names, str):
        return names.replace(",", " ").replace("|", " ").split()
    return list(names)


def list_of_access(names: str | Iterable[str]) -> list[str]:
    """Return access rights as a list. Raises UsageError for unknown ones."""
    known = _core._access_rights()
    return [require_known("access right", name, known) for name in list_of_names(names)]


def list_of_faults(faults: str | Iterable[str], known: Iterable[str]) -> list[str]:
    """Return names of faults: a name, several names, or lines of a list of faults.

    The lists are ``rdmawire certify --fault list`` and ``python3 -m rdmawire.fuzz --faults``. A line of the second list
    starts with the name of the reference device that has the fault.
    """
    lines = faults.splitlines() if isinstance(faults, str) else list(faults)
    words = []
    names = list(known)
    for line in lines:
        if not isinstance(line, str):
            raise TypeError(f"faults: expected names, got {type(line).__name__}")
        if line.strip():
            # A line of a list is a name, a description, and the rules in brackets.
            is_line = line.rstrip().endswith("]") or line.lstrip().startswith("reference:")
            own = [word.rpartition(":")[2] for word in list_of_names(line)] if is_line else list_of_names(line)
            several = line.split()[0].endswith(",") or all(word in names for word in own)
            words += own if not is_line or several else list_of_names(line.split()[0].rpartition(":")[2])
    return [require_known("fault", word, names) for word in words]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean X?" with the most similar known name, or ""."""
    import difflib

    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def require_known(what: str, name: str, known: Iterable[str]) -> str:
    """Return the name. Raises UsageError with a similar or all known names if it is unknown."""
    names = list(known)
    if name in names:
        return name
    near = did_you_mean(name, names) if isinstance(name, str) else ""
    few = f"; expected {', '.join(names)}" if len(names) < 12 else ""
    raise UsageError(f"unknown {what} {name!r}{near or few}")
