"""Progress bars for long work, with the optional package tqdm.

A function with ``progress=None`` shows a bar on a terminal and in a notebook if tqdm is installed, and none otherwise.
``progress=False``, :func:`progress_bars` and the variable RDMAWIRE_PROGRESS=0 switch bars off.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, Union

from rdmawire._core import UsageError
from rdmawire._loading import optional

__all__ = ["Progress", "bar_of", "bytes_bar", "progress_bars", "shows_bar"]

#: A function, True or False for a bar, or None for the default.
Progress = Union[Callable[..., Any], bool, None]

_switched_on = True


def progress_bars(on: bool) -> None:
    """Switch the default bars of this process on or off. ``progress=True`` shows a bar anyway."""
    global _switched_on
    _switched_on = bool(on)


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in getattr(shell, "config", {})


def _wanted() -> bool:
    if not _switched_on or os.environ.get("RDMAWIRE_PROGRESS", "1") in ("0", "no", "off", "false"):
        return False
    try:
        return _in_notebook() or sys.stderr.isatty()
    except (AttributeError, ValueError):  # no standard error, or a closed one
        return False


def _size() -> dict[str, Any]:
    """Return tqdm's options for the size of the bar. tqdm hides bars on terminals that report no size, such as serial
    ones."""
    try:
        known = os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError, AttributeError):
        known = True  # no terminal: tqdm's default
    return {"dynamic_ncols": True} if known else {"ncols": 80, "nrows": 24}


def _tqdm(progress: Progress) -> Any:
    """Return tqdm's class, or None for no bar."""
    if progress is None and not _wanted():
        return None
    try:
        module = optional("progress bars", "progress", "tqdm.auto")
    except UsageError:
        if progress is True:
            raise
        return None
    return module.tqdm


def shows_bar(progress: Progress) -> bool:
    """Return whether :func:`bar_of` would show a bar."""
    return progress is not False and not callable(progress) and _tqdm(progress) is not None


@contextlib.contextmanager
def bar_of(
    progress: Progress, title: str, total: float | None = None, unit: str = "it", *, scale: bool = False
) -> Iterator[Callable[..., None]]:
    """Provide a function ``show(done, text, *values, total=None)``.

    It updates the bar, or calls the function ``progress`` with the values. Without both it does nothing.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise TypeError(f"progress: expected a function, True, False or None, got {type(progress).__name__}")
    if callable(progress):
        function = progress

        def call(done: float, text: str, *values: Any, total: float | None = None) -> None:
            function(*values)

        yield call
        return
    tqdm = None if progress is False else _tqdm(progress)
    if tqdm is None:
        yield lambda *_, **__: None
        return
    seconds = unit == "s"
    form = "{l_bar}{bar}| {n:.0f}/{total:.0f} s{postfix}" if seconds and total else None
    bar = tqdm(
        total=total, desc=title, unit=unit, unit_scale=scale, leave=False, bar_format=form, **_size(),
        # A fast call shows nothing.
        delay=0 if progress is True else 0.5,
    )  # fmt: skip

    def show(done: float, text: str, *_: Any, total: float | None = None) -> None:
        if total and total != bar.total:
            bar.total = total
        if text:
            bar.set_postfix_str(text, refresh=False)
        bar.update(max(done - bar.n, 0))

    try:
        yield show
    finally:
        bar.close()


@contextlib.contextmanager
def bytes_bar(progress: Progress, title: str) -> Iterator[Callable[[int, int, int, str], Any] | None]:
    """Provide a callback for work on files, which is called with packets, processed and total bytes, and file name.

    None: no callback is needed.
    """
    if callable(progress):
        yield progress  # without an intermediate function, which would appear in its traceback
        return
    if not isinstance(progress, bool) and progress is not None:
        raise TypeError(f"progress: expected a function, True, False or None, got {type(progress).__name__}")
    if not shows_bar(progress):
        yield None
        return
    with bar_of(progress, title, unit="B", scale=True) as show:

        def call(packets: int, done: int, all_bytes: int, name: str) -> None:
            text = f"{packets:,} packets, {os.path.basename(name)}"
            show(done, text, packets, done, all_bytes, name, total=all_bytes or None)

        yield call
