"""Two builds of the same commit, in different directories and with different settings, give identical packages."""

import hashlib
import os

import pytest
from packages import ROOT, needs, needs_full, run


def build(directory, kind, environment):
    """Build packages in a clone of HEAD and return the digest of each file."""
    run("git", "clone", "--quiet", ROOT, directory)
    run("bash", "-c", f"umask {environment.pop('umask')}; exec scripts/package --output packages {kind}", cwd=directory,
        env={**os.environ, **environment})
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (directory / "packages").iterdir()}


@needs_full
@needs("git", "fakeroot")
@pytest.mark.parametrize("kind, program", [("deb", "dpkg-shlibdeps"), ("rpm", "rpmbuild"), ("sdist", "python3")])
def test_two_builds_give_identical_packages(kind, program, tmp_path):
    if run("which", program, check=False).returncode:
        pytest.skip(f"needs {program}")
    first = build(tmp_path / "a", kind, {"umask": "022", "TZ": "UTC", "LANG": "C.UTF-8"})
    second = build(tmp_path / "another-directory", kind, {"umask": "077", "TZ": "Asia/Tokyo", "LANG": "de_DE.UTF-8"})
    assert first and first == second
