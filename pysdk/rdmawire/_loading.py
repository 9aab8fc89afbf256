"""Import of the extension module and of optional packages, with errors that state the package to install."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any


def load_core() -> None:
    """Import ``rdmawire._core``. Raises ImportError with one sentence that states the remedy."""
    try:
        from rdmawire import _core
    except ImportError as error:
        if "cannot open shared object file" not in str(error):
            raise
        library = str(error).split(":")[0]
        raise ImportError(
            f"rdmawire requires the shared library {library}, which is missing on this host: install it, or the wheel, "
            "which contains it"
        ) from None
    # Without a module for this Python, the folder of the type stubs is imported as an empty package.
    if getattr(_core, "__file__", None) is None:
        folder = Path(__file__).parent
        built = sorted(path.name.split(".")[1] for path in folder.glob("_core.*.so"))
        running = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
        found = f"has a module only for {', '.join(built)}" if built else "has no module"
        raise ImportError(
            f"rdmawire in {folder} {found} and cannot be imported by {running}: install rdmawire again with this "
            "Python's pip"
        )


def optional(use: str, extra: str, *modules: str) -> Any:
    """Import modules of an optional package and return the first one.

    `use` is the feature that needs the package, in the plural. `extra` is the name in
    ``[project.optional-dependencies]``. Raises UsageError that names both.
    """
    try:
        return [importlib.import_module(module) for module in modules][0]
    except ImportError as error:
        from rdmawire._core import UsageError

        package = modules[0].split(".")[0]
        raise UsageError(f"{use} need the package {package}: pip install 'rdmawire[{extra}]'") from error
