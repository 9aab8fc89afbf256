"""What is wrong with arguments that a function of the module refused, in words. The module calls it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

__all__ = ["plain"]


class _Parameter(NamedTuple):
    name: str
    type: str
    """As pybind11 has it: "int", "Optional[str]", "rdmawire._core._Wire"."""
    has_default: bool
    by_name_only: bool


def plain(text: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Exception:
    """The exception in place of pybind11's: a TypeError, or a UsageError where a number is out of range."""
    from rdmawire import UsageError

    function = text.partition("(")[0]
    is_constructor = text.startswith("__init__(): incompatible constructor")
    signatures = re.findall(r"^ +\d+\. (.*)$", text, re.MULTILINE)
    if is_constructor and signatures:
        function, arguments = signatures[0].partition("(")[0].rpartition(".")[2], arguments[1:]
    function = function.lstrip("_")
    out_of_range = ""
    for signature in signatures:
        parameters = list(_parameters(signature))
        values = dict(zip((one.name for one in parameters if not one.by_name_only), arguments, strict=False)) | dict(keywords)
        wrong = _wrong(parameters, values, len(arguments))
        if wrong and len(signatures) == 1:
            return TypeError(f"{function}(): {wrong}")
        out_of_range = out_of_range or ("" if wrong else _out_of_range(parameters, values))
    if out_of_range:
        return UsageError(f"{function}(): {out_of_range}")
    given = [_shown(value) for value in arguments if not _is_ours(value)]
    given += [f"{name}={_shown(value)}" for name, value in keywords.items()]
    return TypeError(f"{function}(): it cannot be called with {', '.join(given) or 'nothing'}")


def _parameters(signature: str) -> Iterator[_Parameter]:
    """Of "(self: _Wire, count: int = 1, *, link: object) -> list"."""
    by_name_only = False
    for part in _parts(signature[signature.index("(") + 1 :]):
        name, colon, rest = part.partition(": ")
        if name == "*":
            by_name_only = True
        if colon and not name.startswith("*"):
            kind, equals, _ = rest.partition(" = ")
            yield _Parameter(name, kind, bool(equals), by_name_only)


def _parts(text: str) -> Iterator[str]:
    """What stands between commas, up to the bracket that closes; commas in brackets and quotes are no borders."""
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


def _wrong(parameters: list[_Parameter], values: Mapping[str, Any], places: int) -> str:
    """The first argument that is of another type, not known, or missing; empty: none is."""
    at_place = [one for one in parameters if not one.by_name_only]
    if places > len(at_place):
        of_user = [one for one in at_place if one.name != "self"]
        return f"{places - len(at_place)} too many: it takes {', '.join(one.name for one in of_user) or 'nothing'}"
    for name in values:
        if all(one.name != name for one in parameters):
            known = ", ".join(one.name for one in parameters if one.name != "self")
            return f"there is no argument {name}; there are {known}"
    for one in parameters:
        if one.name not in values:
            if not one.has_default:
                return f"{one.name} is missing"
        elif not _fits(values[one.name], one.type):
            return f"{one.name} is {_words(one.type)}, not {_shown(values[one.name])}"
    return ""


def _is_int(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "int": _is_int,
    "float": lambda value: hasattr(value, "__float__") or hasattr(value, "__index__"),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str | bytes),
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
    """Whether it is of that type, as far as can be told; a number may be out of range."""
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
        return f"a list, each of it {_words(several)}"
    return _WORDS.get(kind.partition("[")[0], f"of type {kind.rpartition('.')[2].lstrip('_')}")


def _out_of_range(parameters: list[_Parameter], values: Mapping[str, Any]) -> str:
    """The number that does not fit, if there is one: below 0, else the largest."""
    numbers = [
        (one.name, operator.index(values[one.name]))
        for one in parameters
        if one.type in ("int", "Optional[int]") and values.get(one.name) is not None
    ]
    for name, number in numbers:
        if number < 0:
            return f"{name}={_shown(number)}: too small" + (", it is 0 or more" if number >= -(1 << 31) else "")
    if not numbers:
        return ""
    name, number = max(numbers, key=lambda one: one[1])
    return f"{name}={_shown(number)}: too large"


def _is_ours(value: Any) -> bool:
    return type(value).__module__.startswith("rdmawire._core")


def _shown(value: Any) -> str:
    """A value, where it is short; else its type."""
    if value is None or isinstance(value, bool | int | float | str):
        try:
            text = repr(value)
        except ValueError:  # a number of thousands of digits
            text = ""
        if 0 < len(text) <= 40:
            return text
    name = type(value).__name__.lstrip("_")
    return f"{'an' if name[:1] in 'aeiou' else 'a'} {name}"
