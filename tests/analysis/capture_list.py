"""Imports the list of captures from tests/differential."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "differential"))

from captures import all_captures, capture_named  # noqa: E402, F401
