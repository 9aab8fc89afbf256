"""Files of a corpus, and the selection of its scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rdmawire._core import UsageError
from rdmawire.fuzz.statefiles import lock_directory

__all__ = ["edit_corpus", "scripts_in", "smallest_cover"]


def scripts_in(directory: Path) -> list[str]:
    """Return the scripts of a corpus, or of the corpora of jobs, as JSON, without duplicates."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory")
    paths = sorted([*directory.glob("[0-9]*.json"), *directory.glob("job-*/[0-9]*.json")])
    return list(dict.fromkeys(path.read_text(encoding="utf-8") for path in paths))


def edit_corpus(directory: Path, change: Callable[[list[str]], list[str]]) -> tuple[int, int]:
    """Replace the scripts of a corpus. Returns the numbers of scripts before and after.

    The numbers of the files are consecutive, as sessions require.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if any(path.is_dir() for path in directory.glob("job-*")):
        raise UsageError(f"{directory} contains the corpora of jobs: merge it into another directory")
    with lock_directory(directory):
        before = scripts_in(directory)
        after = change(before)
        old = sorted(directory.glob("[0-9]*.json"))
        for number, text in enumerate(after, 1):
            unfinished = directory / ".script.new"
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(directory / f"{number:06}.json")
        kept = {f"{number:06}.json" for number in range(1, len(after) + 1)}
        for path in old:
            if path.name not in kept:
                path.unlink()
    return len(before), len(after)


def smallest_cover(
    texts: list[str], edges: Sequence[frozenset[Any]], reached: frozenset[Any] = frozenset()
) -> list[str]:
    """Return few scripts that reach all edges of the scripts: repeatedly the one with most new edges."""
    known = set(reached)
    chosen: list[int] = []
    remaining = set(range(len(texts)))
    while remaining:
        best = max(remaining, key=lambda index: (len(edges[index] - known), -len(texts[index]), -index))
        if edges[best] <= known:
            break
        known |= edges[best]
        chosen.append(best)
        remaining.discard(best)
    return [texts[index] for index in sorted(chosen)]
