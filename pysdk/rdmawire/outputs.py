"""Output files. A file is replaced only by a complete one, and never while it is read as a capture."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rdmawire import _core
from rdmawire.sources import native

__all__ = ["complete_file", "refuse_inputs", "write_text"]


def refuse_inputs(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> None:
    """Raise UsageError if `path` is one of the files `inputs` or an open capture, by any name."""
    _core._check_output(native(path), [native(one) for one in inputs])


def write_text(path: str | os.PathLike[str], text: str, inputs: Iterable[str] = ()) -> None:
    """Write a complete file. If that fails, raises CaptureError (an OSError) and keeps an old file."""
    refuse_inputs(path, inputs)
    _core._write_file(native(path), text.encode("utf-8", "surrogateescape"))


@contextlib.contextmanager
def complete_file(path: str | os.PathLike[str], inputs: Iterable[str] = ()) -> Iterator[str]:
    """Provide a temporary name in the directory of `path`. The file is renamed at the end, or removed after an error.

    Devices and pipes are written directly.
    """
    refuse_inputs(path, inputs)
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield os.fspath(path)
        return
    unfinished = target.with_name(f".rdmawire-{os.urandom(6).hex()}")
    try:
        yield str(unfinished)
        if target.exists():
            unfinished.chmod(target.stat().st_mode & 0o7777)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
