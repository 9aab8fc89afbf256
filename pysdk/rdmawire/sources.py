"""Captures from paths, bytes, file objects, and fsspec: all objects that functions accept as a capture."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Union, cast

from rdmawire import _core
from rdmawire._core import CaptureError, ClosedError, UsageError
from rdmawire._loading import optional

__all__ = ["BytesLike", "Source", "files_of", "is_url", "native", "on_disk", "read_source"]

BytesLike = Union[bytes, bytearray, memoryview]
#: A path, a URL of fsspec, the bytes of a file, or a file object.
Source = Union[str, "os.PathLike[str]", BytesLike, BinaryIO]


def native(path: str | os.PathLike[str]) -> str:
    """Return a file name for the extension module.

    File names that are not UTF-8 contain surrogates. The extension module accepts such names only as bytes.
    """
    text = os.fspath(path)
    if isinstance(text, bytes):  # converted before
        return cast(str, text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return cast(str, os.fsencode(text))
    return text


def is_url(path: str) -> bool:
    """Return whether a path is a URL of fsspec: "s3://bucket/x.pcap". The name of an existing file is not a URL."""
    return re.match(r"[a-z][a-z0-9+.-]*(::[a-z][a-z0-9+.-]*)*://", path) is not None and not os.path.exists(path)


def read_source(source: Source) -> tuple[str, BytesLike]:
    """Return the name and the bytes of a URL, bytes, or a file object."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "memory", source
    if isinstance(source, (str, os.PathLike)):
        url = os.fspath(source)
        fsspec = optional("URLs", "remote", "fsspec")
        try:
            with fsspec.open(url, "rb") as file:
                return url, file.read()
        except (OSError, ValueError, ImportError) as error:
            raise CaptureError(f"{url}: cannot open: {error}") from error
    if not hasattr(source, "read") and hasattr(source, "open"):  # fsspec.core.OpenFile
        with source.open() as file:
            return read_source(file)
    if not hasattr(source, "read"):
        raise TypeError(f"source: expected a path, bytes or a file object, got {type(source).__name__}")
    if isinstance(source, io.TextIOBase):
        raise UsageError("the file object is open in text mode: open it with mode 'rb'")
    data: Any = source.read()
    if not isinstance(data, (bytes, bytearray)):
        raise UsageError("the file object returns str; open it with mode 'rb'")
    return str(getattr(source, "name", None) or getattr(source, "path", None) or "memory"), data


class _Folder:
    """A temporary directory for captures that are not files. It exists until the object is released."""

    def __init__(self) -> None:
        import tempfile

        self._folder = tempfile.TemporaryDirectory(prefix="rdmawire-")
        self._count = 0

    def add(self, name: str, data: BytesLike) -> str:
        # Each file has its own directory, since names may be equal.
        self._count += 1
        base = re.sub(r"[^A-Za-z0-9._+-]", "_", Path(name).name) or "memory"
        path = Path(self._folder.name) / str(self._count) / base
        path.parent.mkdir()
        path.write_bytes(data)
        return str(path)


def _core_of(source: object) -> _core.CaptureSource | None:
    """Return the C++ part of an open Capture, or None for other objects."""
    core = getattr(source, "_core", None)
    return core if isinstance(core, _core.CaptureSource) else None


def on_disk(sources: Any) -> tuple[list[str], object]:
    """Return paths of captures for functions that read files, and an object that must exist while they are read.

    `sources` is a capture, or several ones. Captures that are not files are written to a temporary directory.
    """
    single = isinstance(sources, (str, os.PathLike, bytes, bytearray, memoryview)) or hasattr(sources, "read")
    single = single or _core_of(sources) is not None
    some: Iterable[Any] = [sources] if single or hasattr(sources, "open") else sources
    if not isinstance(some, Iterable):
        raise TypeError(f"expected a capture or several ones, got {type(sources).__name__}")
    folder: _Folder | None = None
    paths = []
    for source in some:
        core = _core_of(source)
        if core is not None:
            if core.closed:
                raise ClosedError(f"{core.name} was closed")
            if not core.in_memory:
                paths.append(native(core.path))
                continue
            name, data = core.name, source._data
        elif isinstance(source, (str, os.PathLike)) and not is_url(os.fspath(source)):
            paths.append(native(source))
            continue
        else:
            name, data = read_source(source)
        folder = folder or _Folder()
        paths.append(folder.add(name, data))
    return paths, folder


@contextlib.contextmanager
def files_of(sources: Any) -> Iterator[list[str]]:
    """Provide the paths of :func:`on_disk` within a block."""
    paths, folder = on_disk(sources)
    yield paths
    del folder
