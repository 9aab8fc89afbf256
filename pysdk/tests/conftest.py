"""The package under test is that of the build tree: RDMAWIRE_PYTHON, else the preset dev's."""

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILT = os.environ.get("RDMAWIRE_PYTHON", str(ROOT / "build" / "dev" / "python"))
sys.path.insert(0, BUILT)
sys.path.insert(0, str(Path(__file__).resolve().parent))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [BUILT, os.environ.get("PYTHONPATH")]))  # of programs it starts

# Who is started in the background ignores interrupts, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
