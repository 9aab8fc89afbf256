"""Headers that a program defines: they are decoded, built, shown, filtered, and read into columns.

>>> from rdmawire import BTH, Ether, HeaderField, IPv4, UDP, define_header
>>> Lock = define_header(
...     "Lock",
...     [HeaderField("action", 8, values={1: "ACQUIRE", 2: "RELEASE"}), HeaderField("number", 24, "Number of the lock")],
...     after=UDP(dst_port=7777),
... )
>>> frame = Ether() / IPv4() / UDP() / Lock(action="RELEASE", number=5)
>>> frame[UDP].dst_port, frame[Lock].number
(7777, 5)
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any

from rdmawire import _core
from rdmawire._core import Header, UsageError, header_table

__all__ = ["HeaderField", "define_header", "undefine_header"]


@dataclasses.dataclass(frozen=True)
class HeaderField:
    """A field of a header that :func:`define_header` defines. Fields are consecutive, in network byte order."""

    name: str
    """Lower-case letters, digits and ``_``."""
    width: int
    """Bits."""
    meaning: str = ""
    kind: str = "decimal"
    """``decimal``, ``hex``, ``flag``, ``mac``, ``ipv4``, ``ipv6``, ``guid``, ``text``, ``bytes`` or ``reserved``."""
    values: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Names of values. A value may be set by its name, and is read as a member of an IntEnum class."""
    counts: str = ""
    """``tail``: the number of bytes of the variable part. ``payload``: the number of bytes after the header. The field is
    computed if it is not set. Empty: a field that the user sets."""
    little_endian: bool = False


#: Headers in the PDUs of a TCP stream, whose payload is not decoded with defined headers.
_STREAM_HEADERS = frozenset({
    "mpa", "mpa_enhanced", "mpa_marker", "fpdu", "ddp", "ddp_tagged", "ddp_untagged", "rdmap", "rdmap_read",
    "rdmap_terminate", "rdmap_terminated_length", "rdmap_atomic", "rdmap_atomic_response", "rdmap_immediate",
})  # fmt: skip

_defined: dict[str, tuple[Any, type[Any]]] = {}


def define_header(
    name: str,
    fields: Iterable[HeaderField],
    *,
    after: Header | Iterable[Header],
    tail: str = "",
    title: str = "",
) -> type[Any]:
    """Define a header and return its class.

    - ``name``: name of the class. Its lower-case form is the name in filters, columns and JSON.
    - ``fields``: their total length must be a whole number of bytes.
    - ``after``: the preceding header, with the field values that select the new header: ``BTH(opcode="RC_SEND_ONLY")``,
      ``UDP(dst_port=4000)``, ``IPv4(protocol=253)``, or an object of another defined header. Several headers are
      alternatives. After a BTH, the header follows the extension headers. With a single header, building a frame sets
      its fields if they are not set.
    - ``tail``: name of a variable part after the fields. A field with ``counts="tail"`` contains its length.

    Frames, packets, filters, columns, tables and counts decode the header from then on, in this process. It has no
    conditional fields. :func:`analyze`, :func:`check` and the command do not decode it, and treat it as payload. Frames
    that contain it cannot be pickled: pickle their bytes.

    A second definition that is equal returns the same class. :func:`undefine_header` ends the decoding. Raises
    UsageError for invalid definitions, and for names that are operators of filters (``in``, ``and``).
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(f"name={name!r}: expected the name of a class, for example Storage")
    listed = list(fields)
    for field in listed:
        if not isinstance(field, HeaderField):
            raise TypeError(f"fields: expected HeaderField objects, got {type(field).__name__}")
        if field.counts not in ("", "tail", "payload"):
            raise UsageError(f"field {field.name}: counts={field.counts!r}: expected tail or payload")
        if not isinstance(field.width, int) or not 0 < field.width <= 8192:
            raise UsageError(f"field {field.name}: width={field.width!r}: expected a number of bits from 1")
    before = [after] if isinstance(after, (Header, type)) else list(after)
    for one in before:
        if isinstance(one, type):
            raise UsageError(
                f"after: expected headers with the fields that select the new header, for example UDP(dst_port=4000), "
                f"got the class {one.__name__}"
            )
        if isinstance(one, Header) and header_table(type(one)).name in _STREAM_HEADERS:
            raise UsageError(f"after: a header cannot follow {type(one).__name__}: PDUs of iWARP are unsupported")
    definition = (listed, [repr(one) for one in before], tail, title)
    known = _defined.get(name)
    if known is not None and known[0] == definition:
        _core._set_decoded(known[1], True)
        return known[1]
    if known is not None:
        raise UsageError(f"header {name.lower()}: the name is in use with another definition: choose another name")
    values = [
        {**{one.name: getattr(field, one.name) for one in dataclasses.fields(field)},
         "values": sorted((int(value), text) for value, text in field.values.items())}
        for field in listed
    ]
    made: type[Any] = _core._define_header(name.lower(), name, title or name, values, tail, before)
    _defined[name] = definition, made
    return made


def defined_headers() -> list[type[Any]]:
    """Return the classes that define_header() made, in the order of their definition."""
    return [made for _, made in _defined.values()]


def undefine_header(header: type[Any]) -> None:
    """Stop decoding a header that :func:`define_header` returned: its bytes are payload again.

    The class and the names in filters stay. An equal definition resumes the decoding.
    """
    _core._set_decoded(header, False)
