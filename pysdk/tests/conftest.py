"""Tests the package in RDMAWIRE_PYTHON, or in the build tree of the preset dev."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = os.environ.get("RDMAWIRE_PYTHON", str(ROOT / "build" / "dev" / "python"))
sys.path.insert(0, BUILT)
sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [BUILT, os.environ.get("PYTHONPATH")]))  # for started programs


@pytest.fixture(autouse=True)
def own_definitions_end_with_the_test():
    """Remove the cases and headers that a test defines, so that other tests do not find them."""
    import rdmawire
    from rdmawire.user_headers import defined_headers

    with rdmawire.conformance.temporary_cases():
        yield
    for header in defined_headers():
        rdmawire.undefine_header(header)
