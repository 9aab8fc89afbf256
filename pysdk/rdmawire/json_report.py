"""Base classes of reports that contain the JSON of a command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["JsonReport", "Row"]


class Row(Mapping[str, Any]):
    """An object in a report: a mapping whose JSON keys are also attributes.

    ``finding["title"]`` and ``finding.title`` are equal. ``docs/reference/analyze-report.md`` and
    ``docs/reference/check-report.md`` list the keys.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> Any:
        return _with_rows(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return _with_rows(self._values[name])
        except KeyError:
            raise AttributeError(f"unknown key {name}; expected {', '.join(self._values)}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._values})

    def __repr__(self) -> str:
        return f"Row({self._values!r})"

    def __reduce__(self) -> tuple[type[Row], tuple[dict[str, Any]]]:
        return Row, (self._values,)

    def to_dict(self) -> dict[str, Any]:
        """Return the values as in JSON."""
        return self._values


def _with_rows(value: Any) -> Any:
    """Convert JSON objects to rows, also in lists."""
    if isinstance(value, dict):
        return Row(value)
    if isinstance(value, list):
        return [_with_rows(one) for one in value]
    return value


class JsonReport:
    """A report made from the JSON of a command. The keys of the JSON are attributes."""

    def __init__(self, text: str, read_errors: Sequence[str]) -> None:
        self._text = text
        self._values: dict[str, Any] | None = None
        self.read_errors: list[str] = list(read_errors)
        """Files that could not be read completely, one sentence each. The report covers the readable part."""

    @property
    def _dict(self) -> dict[str, Any]:
        if self._values is None:
            self._values = json.loads(self._text)
        return self._values

    def to_dict(self) -> dict[str, Any]:
        """Return the output of the command with ``--json`` as a dict."""
        return json.loads(self._text)  # type: ignore[no-any-return]

    def to_json(self) -> str:
        """Return the output of the command with ``--json``."""
        return self._text

    def __getitem__(self, key: str) -> Any:
        return _with_rows(self._dict[key])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        values = self._dict
        if name not in values:
            raise AttributeError(f"unknown key {name}; expected {', '.join(values)}")
        return _with_rows(values[name])

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._dict})
