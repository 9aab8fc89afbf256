"""Readable errors for rejected arguments of functions of the extension module. Called from C++."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rdmawire._core import UsageError

__all__ = ["describe"]


class _Parameter(NamedTuple):
    name: str
    type: str
    """Type in pybind11's notation: "int", "Optional[str]", "rdmawire._core._Wire"."""
    has_default: bool
    keyword_only: bool


#: Functions of the package by the names in the extension module.
_PUBLIC = {
    "AnalysisRun": "analyze",
    "CaptureSource": "open_capture",
    "LiveCapture": "open_live",
    "captured_frames": "frames",
    "captured_packets": "packets",
}


def describe(text: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Exception:
    """Return a replacement for pybind11's exception: a TypeError, or a UsageError for numbers out of range."""
    function = text.partition("(")[0]
    is_constructor = text.startswith("__init__(): incompatible constructor")
    signatures = re.findall(r"^ +\d+\. (.*)$", text, re.MULTILINE)
    if is_constructor and signatures:
        function, arguments = signatures[0].partition("(")[0].rpartition(".")[2], arguments[1:]
    function = _PUBLIC.get(function, function.lstrip("_"))
    out_of_range = ""
    for signature in signatures:
        parameters = list(_parameters(signature))
        positional = (one.name for one in parameters if not one.keyword_only)
        by_name = dict(zip(positional, arguments, strict=False)) | dict(keywords)
        error = _error(parameters, by_name, len(arguments))
        if error and len(signatures) == 1:
            return TypeError(f"{function}(): {error}")
        out_of_range = out_of_range or ("" if error else _out_of_range(parameters, by_name))
    if out_of_range:
        return UsageError(f"{function}(): {out_of_range}")
    values = [_short_text(value) for value in arguments if not _is_internal(value)]
    values += [f"{name}={_short_text(value)}" for name, value in keywords.items()]
    return TypeError(f"{function}(): invalid arguments: {', '.join(values) or 'none'}")


def _parameters(signature: str) -> Iterator[_Parameter]:
    """Parse "(self: _Wire, count: int = 1, *, link: object) -> list"."""
    keyword_only = False
    for part in _parts(signature[signature.index("(") + 1 :]):
        name, colon, rest = part.partition(": ")
        if name == "*":
            keyword_only = True
        if colon and not name.startswith("*"):
            kind, equals, _ = rest.partition(" = ")
            yield _Parameter(name, kind, bool(equals), keyword_only)


def _parts(text: str) -> Iterator[str]:
    """Split at commas up to the closing bracket. Commas in brackets and quotes do not separate parts."""
    depth, quote, part = 0, "", ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{<":
            depth += 1
        elif letter in ")]}" or (letter == ">" and not part.endswith("-")):
            depth -= 1
        if depth < 0 or (letter == "," and depth == 0 and not quote):
            yield part.strip()
            part = ""
            if depth < 0:
                return
        else:
            part += letter


def _error(parameters: list[_Parameter], values: Mapping[str, Any], count: int) -> str:
    """Return the error of the first invalid, unknown or missing argument, or ""."""
    positional = [one for one in parameters if not one.keyword_only]
    if count > len(positional):
        names = [one.name for one in positional if one.name != "self"]
        return f"too many arguments; expected {', '.join(names) or 'none'}"
    for name in values:
        if all(one.name != name for one in parameters):
            known = ", ".join(one.name for one in parameters if one.name != "self")
            return f"unknown argument {name}; expected {known}"
    for one in parameters:
        if one.name not in values:
            if not one.has_default:
                return f"missing argument {one.name}"
        elif not _fits(values[one.name], one.type):
            return f"{one.name}: expected {_words(one.type)}, got {_short_text(values[one.name])}"
    return ""


def _is_int(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_text(value: Any) -> bool:
    """Return whether a value is a str without surrogates, which UTF-8 cannot represent."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "float": lambda value: hasattr(value, "__float__") or hasattr(value, "__index__"),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, bytes) or _is_text(value),
    "bytes": lambda value: isinstance(value, bytes),
    "dict": lambda value: isinstance(value, dict),
    "list": lambda value: isinstance(value, list),
    "tuple": lambda value: isinstance(value, tuple),
    "Callable": callable,
    "function": callable,
}
_WORDS = {
    "int": "an int",
    "float": "a number",
    "bool": "True or False",
    "str": "a str",
    "bytes": "bytes",
    "dict": "a dict",
    "list": "a list",
    "tuple": "a tuple",
    "Callable": "a function",
    "function": "a function",
}


def _inner(kind: str, of: str) -> str | None:
    return kind[len(of) + 1 : -1] if kind.startswith(f"{of}[") and kind.endswith("]") else None


def _fits(value: Any, kind: str) -> bool:
    """Return whether a value has this type, as far as can be determined. Numbers may be out of range."""
    optional = _inner(kind, "Optional")
    if optional is not None:
        return value is None or _fits(value, optional)
    several = _inner(kind, "List")
    if several is not None:
        is_sequence = not isinstance(value, str | bytes) and hasattr(value, "__len__") and hasattr(value, "__getitem__")
        return is_sequence and all(_fits(one, several) for one in value)
    if kind.startswith("rdmawire."):
        return any(f"{of.__module__}.{of.__qualname__}" == kind for of in type(value).__mro__)
    check = _CHECKS.get(kind.partition("[")[0])
    return check is None or check(value)


def _words(kind: str) -> str:
    optional = _inner(kind, "Optional")
    if optional is not None:
        return f"{_words(optional)} or None"
    several = _inner(kind, "List")
    if several is not None:
        return f"a list of items that are {_words(several)}"
    return _WORDS.get(kind.partition("[")[0], f"of type {kind.rpartition('.')[2].lstrip('_')}")


def _out_of_range(parameters: list[_Parameter], values: Mapping[str, Any]) -> str:
    """Return the error of a number out of range: of a negative number if there is one, otherwise of the largest
    number."""
    numbers = [
        (one.name, operator.index(values[one.name]))
        for one in parameters
        if one.type in ("int", "Optional[int]") and values.get(one.name) is not None
    ]
    for name, number in numbers:
        if number < 0:
            expected = "; expected 0 or more" if number >= -(1 << 31) else ""
            return f"{name}={_short_text(number)} is too small{expected}"
    if not numbers:
        return ""
    name, number = max(numbers, key=lambda one: one[1])
    return f"{name}={_short_text(number)} is too large"


def _is_internal(value: Any) -> bool:
    return type(value).__module__.startswith("rdmawire._core")


def _short_text(value: Any) -> str:
    """Return a short value as text, otherwise its type."""
    if value is None or isinstance(value, bool | int | float | str):
        try:
            text = repr(value)
        except ValueError:  # an int with thousands of digits
            text = ""
        if 0 < len(text) <= 40:
            return text
    name = type(value).__name__.lstrip("_")
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
