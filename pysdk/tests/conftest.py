"""Tests the package in RDMAWIRE_PYTHON, or in the build tree of the preset dev."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = os.environ.get("RDMAWIRE_PYTHON", str(ROOT / "build" / "dev" / "python"))
sys.path.insert(0, BUILT)
sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [BUILT, os.environ.get("PYTHONPATH")]))  # for started programs
