"""The captures that tests/differential reads, under the names that it gives them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "differential"))

from captures import all_captures, capture_named  # noqa: E402, F401
