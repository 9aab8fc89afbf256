"""State of a session in a directory: complete files that survive SIGKILL, and a lock."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any

from rdmawire._core import UsageError

__all__ = ["lock_directory", "read_state", "refuse_other_files", "write_state", "write_text"]

#: Files of a report.
REPORT_FILES = ("report.json", "report.txt", "index.html")


def lock_directory(directory: Path) -> IO[str]:
    """Return an open file that locks the directory for this session. Raises UsageError if another one uses it.

    The kernel releases the lock when the process ends.
    """
    file = open(directory / "lock", "a", encoding="utf-8")  # noqa: SIM115 - closed by the session
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise UsageError(f"{directory} is used by another session; use another directory, or wait until it ends") from None
    return file


def write_state(path: Path, state: object) -> None:
    """Write a JSON file. After a crash, the file has its old or its new contents."""
    write_text(path, json.dumps(state) + "\n")


def refuse_other_files(directory: Path) -> None:
    """Raise UsageError if a new session would overwrite files of the directory."""
    for name in REPORT_FILES:
        if (directory / name).exists():
            raise UsageError(f"{directory} contains {name}, but no session: use another directory")


def write_text(path: Path, text: str) -> None:
    """Write a file. After a crash, the file has its old or its new contents."""
    unfinished = path.with_name(f".{path.name}.new")
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def read_state(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or None without a file. Raises UsageError for other contents."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UsageError(f"{path}: {error}; remove it, or use another directory") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path}: expected an object; remove it, or use another directory")
    return value
