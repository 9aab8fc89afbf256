"""Mutations of messages: fields of headers, payload, checksums, and whole messages."""

from __future__ import annotations

import dataclasses
import random
import types
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

from rdmawire._core import HEADERS, Field, Frame, Header, UsageError, header_table, parse
from rdmawire.names import did_you_mean
from rdmawire.user_headers import defined_headers

__all__ = ["Mutation", "Unsendable", "Values", "chosen_of", "mutate", "mutated", "mutated_frames", "names_of"]

Content = Union[Frame, bytes]

#: Headers of the path to the target: fuzzed only if `only` names them, since frames could reach other hosts.
PATH_HEADERS = frozenset({"eth", "vlan", "sll", "sll2", "null", "erf", "lrh", "mac_control", "pause"})
PATH_FIELDS = frozenset({"ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "grh.sgid", "grh.dgid", "grh.src", "grh.dst"})
CHECKSUMS = ("icrc", "vcrc", "mpa_crc")


class Unsendable(Exception):
    """A mutation that cannot be encoded or sent."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One change of a message."""

    step: int
    """Index of the message in the conversation."""
    kind: str
    """``field``, ``checksum``, ``payload``, ``bytes`` (replace), ``insert``, ``delete``, ``truncate``, ``append``,
    ``drop`` or ``duplicate``."""
    field: str = ""
    """For ``field``: header and field (``bth.psn``). For ``checksum``: ``icrc``, ``vcrc`` or ``mpa_crc``."""
    layer: int = 0
    """For ``field``: index of the header in the frame."""
    value: int | str = 0
    """Number, or bytes as hexadecimal text."""
    at: int = 0
    """Offset or length in bytes."""

    def to_dict(self) -> dict[str, Any]:
        """Return the mutation as a dict, without members that are 0 or empty."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value or name == "step"}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Mutation:
        """Return the mutation of :meth:`to_dict`. Raises TypeError for other members."""
        one = cls(**value)
        if not isinstance(one.step, int) or not isinstance(one.kind, str):
            raise TypeError("a mutation has a step and a kind")
        return one

    def __str__(self) -> str:
        where = f"message {self.step + 1}"
        value = f"{self.value:#x}" if isinstance(self.value, int) else f"bytes {self.value[:64]}"
        if self.kind in ("field", "checksum"):
            return f"{where}: {self.field} = {value}"
        if self.kind == "payload":
            return f"{where}: payload of {len(str(self.value)) // 2 if self.value else 0} bytes"
        if self.kind in ("bytes", "insert"):
            return f"{where}: {'replace' if self.kind == 'bytes' else 'insert'} at {self.at}: {value}"
        if self.kind == "delete":
            return f"{where}: delete {self.value} bytes at {self.at}"
        if self.kind == "truncate":
            return f"{where}: truncate to {self.at} bytes"
        if self.kind == "append":
            return f"{where}: append {value}"
        return f"{where}: {self.kind}"


def chosen_of(only: Any) -> tuple[Any, ...]:
    """Return the entries of ``only`` as a tuple. A single header or field needs no list."""
    return (only,) if isinstance(only, (str, type, types.GetSetDescriptorType)) else tuple(only)


def names_of(one: Any) -> str:
    """Return ``bth`` or ``bth.psn`` for an entry of ``Message.only``. Raises UsageError for unknown ones."""
    if isinstance(one, type) and issubclass(one, Header):
        return header_table(one).name
    if isinstance(one, types.GetSetDescriptorType) and issubclass(one.__objclass__, Header):  # BTH.psn
        return f"{header_table(one.__objclass__).name}.{one.__name__}"
    if not isinstance(one, str):
        raise TypeError(
            f'only: expected headers (BTH) and fields (BTH.psn or "bth.psn"), got {type(one).__name__}'
        )
    header, _, field = one.partition(".")
    tables = {header_table(known).name: header_table(known) for known in (*HEADERS, *defined_headers())}
    if header in CHECKSUMS and not field:
        return one
    if header not in tables:
        raise UsageError(f"only: unknown header {header!r}{did_you_mean(header, [*tables, *CHECKSUMS])}")
    fields = [known.attribute for known in tables[header].fields]
    if field and field not in fields:
        raise UsageError(f"only: {header} has no field {field!r}{did_you_mean(field, fields)}")
    return one


def _candidates(frame: Frame, only: Sequence[type[Header] | str]) -> list[tuple[int, str, Field]]:
    """Return the fields that may be mutated: index of the header, name, field."""
    chosen = {names_of(one) for one in only}
    found = []
    for index, layer in enumerate(frame.layers):
        table = header_table(type(layer))
        for field in table.fields:
            name = f"{table.name}.{field.attribute}"
            allowed = table.name in chosen or name in chosen
            if not chosen:
                allowed = table.name not in PATH_HEADERS and name not in PATH_FIELDS
            part = field.part and name not in chosen
            if allowed and not field.read_only and not part and getattr(layer, field.attribute) is not None:
                found.append((index, name, field))
    return found


def _number(current: Any, field: Field, chance: random.Random) -> int:
    """Return a boundary value, a value near the current one, one of the enumeration, or a random one."""
    most = (1 << field.width) - 1
    values = [0, 1, most, most - 1, most >> 1, (most >> 1) + 1, chance.randrange(most + 1)]
    if isinstance(current, int):
        current = int(current)
        values += [current + 1, current - 1, current ^ 1 << chance.randrange(field.width)] * 2
        values += [current + chance.randrange(-64, 65)]
    if field.enumeration is not None:
        values += [int(one) for one in field.enumeration] * (1 if len(field.enumeration) < 8 else 0)
        values += [int(chance.choice(list(field.enumeration))) for _ in range(4)]
    usable = [one & most for one in values]
    return chance.choice([one for one in usable if one != current] or usable)


class Values:
    """Enumerates the values of small fields in a session, so that each is selected once before values repeat."""

    MOST_BITS = 8

    def __init__(self, seed: int, used: Mapping[str, int] | None = None) -> None:
        self._seed = seed
        self._conversation = ""
        self.used = dict(used or {})
        """Number of enumerated values by conversation, message and field. Part of the state of a session."""

    def of(self, conversation: str) -> Values:
        """Select the conversation for the following calls of next(), and return this object."""
        self._conversation = conversation
        return self

    def next(self, step: int, name: str, current: Any, field: Field) -> int | None:
        """Return the next value of a field that differs from the current one. None: all values have been used."""
        key = f"{self._conversation}/{step} {name}"
        if field.width > self.MOST_BITS:
            return None
        order = random.Random(f"{self._seed}:{key}").sample(range(1 << field.width), 1 << field.width)
        for value in order[self.used.get(key, 0) :]:
            self.used[key] = self.used.get(key, 0) + 1
            if value != current:
                return value
        return None


def _field_mutation(
    frame: Frame,
    step: int,
    chance: random.Random,
    candidates: list[tuple[int, str, Field]],
    values: Values | None,
) -> Mutation:
    # Select a header first, since headers have different numbers of fields.
    layer = chance.choice(sorted({index for index, _, _ in candidates}))
    _, name, field = chance.choice([one for one in candidates if one[0] == layer])
    if field.form in ("bytes", "text"):
        current = getattr(frame.layers[layer], field.attribute)
        data = bytearray(current.encode() if isinstance(current, str) else bytes(current))
        data += bytes(max(field.width // 8 - len(data), 0))
        for _ in range(1 + chance.randrange(4)):
            if data:
                data[chance.randrange(len(data))] = chance.randrange(256)
        return Mutation(step, "field", name, layer, data.hex())
    current = getattr(frame.layers[layer], field.attribute)
    value = None if values is None else values.next(step, f"{layer} {name}", current, field)
    return Mutation(step, "field", name, layer, _number(current, field, chance) if value is None else value)


def _payload_mutation(frame: Frame, step: int, chance: random.Random) -> Mutation:
    payload = bytearray(frame.payload)
    length = len(payload)
    if payload and chance.random() < 0.4:
        for _ in range(1 + chance.randrange(4)):
            payload[chance.randrange(length)] = chance.randrange(256)
    else:
        length = max(chance.choice([0, 1, 3, length - 1, length + 1, 2 * length, 256, 1024, 1025]), 0)
        payload = payload[:length] + bytes(max(length - len(payload), 0))
    return Mutation(step, "payload", value=bytes(payload).hex())


def _bytes_mutation(data: bytes, step: int, chance: random.Random) -> Mutation:
    at = chance.randrange(len(data)) if data else 0
    width = chance.choice([1, 1, 2, 4, 8])
    kind = chance.choice(["flip", "number", "number", "random", "insert", "delete", "truncate", "append"])
    if not data and kind not in ("insert", "append"):
        kind = "append"
    if kind == "flip":
        return Mutation(step, "bytes", value=bytes([data[at] ^ 1 << chance.randrange(8)]).hex(), at=at)
    if kind == "number":
        most = (1 << 8 * width) - 1
        number = chance.choice([0, 1, most, most - 1, most >> 1, (most >> 1) + 1])
        return Mutation(step, "bytes", value=number.to_bytes(width, chance.choice(["big", "little"])).hex(), at=at)
    if kind == "random":
        return Mutation(step, "bytes", value=chance.randbytes(width).hex(), at=at)
    if kind == "insert":
        size = chance.choice([1, 2, 4, 64, 1024])
        return Mutation(step, "insert", value=chance.choice([chance.randbytes(size), data[at : at + size]]).hex(), at=at)
    if kind == "delete":
        return Mutation(step, "delete", value=width, at=at)
    if kind == "truncate":
        return Mutation(step, "truncate", at=at)
    return Mutation(step, "append", value=chance.randbytes(chance.choice([1, 2, 4, 64, 1024])).hex())


def mutate(
    content: Content,
    step: int,
    only: Sequence[type[Header] | str],
    chance: random.Random,
    count: int,
    present: Sequence[Mutation] = (),
    values: Values | None = None,
) -> list[Mutation]:
    """Return new mutations of a message, in addition to those that are present."""
    new: list[Mutation] = []
    taken = {(one.kind, one.field, one.layer) for one in present}
    for _ in range(count):
        one: Mutation | None
        if not only and chance.random() < 0.04:
            one = Mutation(step, chance.choice(["drop", "duplicate"]))
        elif not isinstance(content, Frame):
            one = _bytes_mutation(content, step, chance)
        else:
            one = _frame_mutation(content, step, only, chance, values, taken)
        if one is None or (isinstance(content, Frame) and (one.kind, one.field, one.layer) in taken):
            continue
        taken.add((one.kind, one.field, one.layer))
        new.append(one)
    return new


def _frame_mutation(
    frame: Frame,
    step: int,
    only: Sequence[type[Header] | str],
    chance: random.Random,
    values: Values | None,
    taken: Container[tuple[str, str, int]],
) -> Mutation | None:
    """Return a mutation, or None if all chosen fields already have one."""
    known = _candidates(frame, only)
    candidates = [one for one in known if ("field", one[1], one[0]) not in taken]
    sums = [name for name in CHECKSUMS if getattr(frame, name) is not None and (not only or name in only)]
    draw = chance.random()
    if candidates and (draw < 0.8 or (only and not sums)):
        return _field_mutation(frame, step, chance, candidates, values)
    if only and not sums and known:
        return None
    if only and not sums:
        raise UsageError(f"only: message {step + 1} has none of {', '.join(names_of(one) for one in only)}")
    if sums and (only or draw < 0.85):
        name = chance.choice(sums)
        return Mutation(step, "checksum", name, value=getattr(frame, name) ^ 1 << chance.randrange(16))
    if draw < 0.95:
        return _payload_mutation(frame, step, chance)
    size = len(bytes(frame))
    if chance.random() < 0.5:
        return Mutation(step, "truncate", at=chance.randrange(min(14, size - 1), size) if size > 1 else 0)
    return Mutation(step, "append", value=chance.randbytes(chance.choice([1, 3, 4, 64])).hex())


def _computing(frame: Frame) -> Frame:
    """Return a copy whose lengths and checksums are recomputed after changes. Invalid lengths and checksums of a
    captured frame are kept."""
    computing = frame.copy().recompute()
    return computing if bytes(computing) == bytes(frame) else frame.copy()


def _change_frame(frame: Frame, one: Mutation) -> None:
    if one.kind == "checksum" and one.field in CHECKSUMS:
        setattr(frame, one.field, int(one.value))
    elif one.kind == "payload":
        frame.payload = bytes.fromhex(str(one.value)) if one.value else b""
    elif one.kind == "field":
        header, _, attribute = one.field.partition(".")
        if one.layer >= len(frame.layers) or header_table(type(frame.layers[one.layer])).name != header:
            raise Unsendable(f"the message has no {header} at layer {one.layer}")
        value = bytes.fromhex(one.value) if isinstance(one.value, str) else one.value
        setattr(frame.layers[one.layer], attribute, value)


def mutated(content: Content, mutations: Iterable[Mutation]) -> list[bytes]:
    """Return the messages to send instead of a message: none if it is dropped, two if it is duplicated.

    Raises Unsendable if the result cannot be encoded.
    """
    several = list(mutations)
    try:
        if isinstance(content, Frame):
            changes = [one for one in several if one.kind in ("field", "checksum", "payload")]
            frame = _computing(content) if changes else content
            for one in changes:
                _change_frame(frame, one)
            data = bytearray(bytes(frame))
        else:
            data = bytearray(content)
    except UsageError as error:
        raise Unsendable(str(error)) from error
    copies = 1
    for one in several:
        if one.kind == "bytes":
            new = bytes.fromhex(str(one.value))
            data[one.at : one.at + len(new)] = new
        elif one.kind == "insert":
            data[one.at : one.at] = bytes.fromhex(str(one.value)) if one.value else b""
        elif one.kind == "delete":
            del data[one.at : one.at + int(one.value)]
        elif one.kind == "truncate":
            del data[one.at :]
        elif one.kind == "append":
            data += bytes.fromhex(str(one.value))
        elif one.kind == "drop":
            copies = 0
        elif one.kind == "duplicate":
            copies += 1
    return [bytes(data)] * (copies if data else 0)


def mutated_frames(
    frame: Frame,
    count: int | None = None,
    *,
    seed: int = 1,
    only: Any = (),
    keep: Any = (),
    max_mutations: int = 1,
) -> Iterator[Frame]:
    """Return an iterator over mutated copies of a frame, which all differ from each other and from the frame.

    - ``count``: maximum number of copies. None: until no new one is found.
    - ``seed``: equal seeds return equal frames.
    - ``only``: headers (``BTH``) and fields (``BTH.psn``, ``"bth.psn"``) that may be mutated. Default: all except
      link-layer and IP addresses, and also the payload, CRCs and the length.
    - ``keep``: headers and fields that are never mutated.
    - ``max_mutations``: maximum number of mutations of a copy.

    Lengths and CRCs are computed from the mutated values, except for CRCs that are mutated themselves. No target is
    needed: send the frames, or write them to a capture. :class:`MessageSession` fuzzes with monitors and responses.
    """
    if not isinstance(frame, Frame):
        raise TypeError(f"mutated_frames(): expected a Frame, got {type(frame).__name__}")
    if max_mutations < 1:
        raise UsageError(f"max_mutations={max_mutations}: expected a number above 0")
    chosen = chosen_of(only)
    kept = {names_of(one) for one in chosen_of(keep)}
    for one in chosen:
        names_of(one)  # reports unknown names before the iteration
    if chosen and not _candidates(frame, chosen) and not any(name in chosen for name in CHECKSUMS):
        raise UsageError(f"only: the frame has none of {', '.join(names_of(one) for one in chosen)}")
    return _mutated_frames(frame, count, random.Random(seed), chosen, kept, max_mutations)


def _mutated_frames(
    frame: Frame, count: int | None, chance: random.Random, only: tuple[Any, ...], kept: set[str], most: int
) -> Iterator[Frame]:
    patience = 2000  # consecutive attempts without a new frame
    seen = {bytes(frame)}
    failed = 0
    while failed < patience and (count is None or len(seen) <= count):
        failed += 1
        mutations = mutate(frame, 0, only, chance, chance.randrange(1, most + 1))
        names = {one.field for one in mutations} | {one.field.partition(".")[0] for one in mutations}
        if names & kept or any(one.kind in ("drop", "duplicate") for one in mutations):
            continue
        try:
            data = mutated(frame, mutations)
        except Unsendable:
            continue
        if data and data[0] not in seen:
            failed = 0
            seen.add(data[0])
            yield parse(data[0], frame.link)
