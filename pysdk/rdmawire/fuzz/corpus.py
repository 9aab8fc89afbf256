"""Files of a corpus, and the selection of its scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rdmawire._core import UsageError
from rdmawire.fuzz.statefiles import lock_directory

__all__ = ["edit_corpus", "scripts_in", "smallest_cover"]


def scripts_in(directory: Path) -> list[str]:
    """Return the scripts of a corpus as JSON, without duplicates."""
    if not directory.is_dir():
        raise UsageError(f"{directory} is not a directory")
    texts = [path.read_text(encoding="utf-8") for path in sorted(directory.glob("[0-9]*.json"))]
    return list(dict.fromkeys(texts))


def edit_corpus(directory: Path, change: Callable[[list[str]], list[str]]) -> tuple[int, int]:
    """Replace the scripts of a corpus. Returns the numbers of scripts before and after.

    The numbers of the files are consecutive, as sessions require.
    """
    directory.mkdir(parents=True, exist_ok=True)
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
    texts: list[str], edges: Sequence[frozenset[int]], reached: frozenset[int] = frozenset()
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
