"""The package of the build tree: exception classes, and the error of a missing library."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import rdmawire


def test_exceptions_derive_from_rdmawire_error():
    for name in ("CaptureError", "ClosedError", "DeviceError", "ParseError", "UsageError", "WireError"):
        assert issubclass(getattr(rdmawire, name), rdmawire.Error)


@pytest.mark.parametrize("name", ["ParseError", "UsageError", "ClosedError"])
def test_usage_exceptions_derive_from_value_error(name):
    assert issubclass(getattr(rdmawire, name), ValueError)


def test_missing_library_error_names_library_and_remedy(tmp_path):
    package = tmp_path / "rdmawire"
    package.mkdir()
    for name in ("__init__.py", "_loading.py"):
        (package / name).write_text(Path(rdmawire.__file__).with_name(name).read_text())
    (package / "_core.py").write_text(
        "raise ImportError('libssl.so.3: cannot open shared object file: No such file or directory')"
    )
    done = subprocess.run([sys.executable, "-c", "import rdmawire"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "libssl.so.3" in done.stderr and "install it, or the wheel" in done.stderr


def test_extras_in_error_messages_exist_and_are_documented():
    root = Path(__file__).resolve().parents[2]
    sources = "".join(path.read_text() for path in (root / "pysdk" / "rdmawire").rglob("*.py"))
    named = set(re.findall(r'optional\("[^"]*", "([a-z]+)"', sources))
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert len(named) > 4 and named <= set(extras)
    documented = set(re.findall(r"^\| `([a-z]+)` \|", (root / "docs" / "how-to" / "install.md").read_text(), re.M))
    assert set(extras) <= documented
