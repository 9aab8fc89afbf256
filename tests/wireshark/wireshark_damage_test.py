"""Runs scripts/wireshark-fuzz for ten seconds: damaged captures in tshark with the plugin.

Uses the plugin built with AddressSanitizer and UndefinedBehaviorSanitizer too, if it exists.
"""

import shutil
import subprocess

import pytest
from tshark_runs import PLUGIN, ROOT, needs_tshark

pytestmark = needs_tshark
SANITIZED = ROOT / "build/asan-ubsan/wireshark/rdmawire.so"


@pytest.mark.parametrize("plugin, arguments", [
    (PLUGIN, []),
    pytest.param(SANITIZED, ["--sanitize"], marks=pytest.mark.skipif(not SANITIZED.exists(), reason=f"requires {SANITIZED}")),
], ids=["plain", "with sanitizers"])
@pytest.mark.skipif(not shutil.which("editcap") or not shutil.which("randpkt"), reason="requires editcap and randpkt")
def test_damaged_captures_do_not_crash_the_plugin(plugin, arguments, tmp_path):
    done = subprocess.run([ROOT / "scripts/wireshark-fuzz", "--seconds", "10", "--seed", "1", "--plugin", plugin, *arguments],
                          capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "wireshark-fuzz:" and int(last[1]) >= 1 and last[3:5] == ["0", "found,"]
