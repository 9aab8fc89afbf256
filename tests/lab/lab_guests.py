"""Virtual machines of this process."""

import os
from pathlib import Path


def processes():
    """Return the process IDs of the virtual machines that this process started."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == os.getpid() and b"qemu" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
        except (OSError, ValueError, IndexError):
            continue
    return found


def is_restored(process):
    """Return whether a virtual machine started from a stored state, instead of booting."""
    return b"-incoming" in Path("/proc", str(process), "cmdline").read_bytes()
