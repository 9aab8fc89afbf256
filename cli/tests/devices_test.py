"""rdmawire devices: on this host, and in network namespaces with devices of the fake verbs library."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
FAKE_VERBS = COMMAND.parents[1] / "replay" / "wires" / "librdma_fake_verbs.so"

pytestmark = pytest.mark.skipif(not COMMAND.exists(), reason=f"needs the command: {COMMAND} is not built")


def run(*arguments, **options):
    done = subprocess.run([COMMAND, "devices", *arguments], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def in_namespace(script, *arguments, **variables):
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("requires root for network namespaces")
    done = subprocess.run(["unshare", "-n", "bash", "-ec", script + '\nexec "$0" devices "$@"', COMMAND, *arguments],
                          capture_output=True, text=True, timeout=60, env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_built_in_wires_are_listed():
    lines = run().splitlines()
    assert lines[0].startswith("interfaces")
    assert any(line.split()[:2] in (["lo", "up"], ["lo", "down"]) for line in lines)
    assert lines[-1] == "always available: null, file:PATH, unix:PATH"
    listed = json.loads(run("--json"))
    assert list(listed) == ["first_namespace", "interfaces", "verbs", "labs"]
    assert "lo" in [device["name"] for device in listed["interfaces"]]


def test_interfaces_show_capabilities_and_reasons():
    script = """ip link add near type veth peer name far; ip link set near up; ip link set far up; ip link set near mtu 4200
ip link add alone type veth peer name other; ip link set alone up
until ip -o link show dev near | grep -q "state UP"; do :; done"""
    listed = json.loads(in_namespace(script, "--json"))
    assert listed["first_namespace"] is not True  # null if the first process hides its namespace
    devices = {device["name"]: device for device in listed["interfaces"]}
    near, alone = devices["near"], devices["alone"]
    assert (near["state"], near["mtu"], near["driver"], near["bits_per_second"]) == ("up", 4200, "veth", 10_000_000_000)
    assert near["packet"] == {"wire": "packet:near", "able": True, "why_not": None}
    assert alone["state"] == "no carrier"
    assert devices["other"]["state"] == "down"
    assert alone["packet"]["able"] is False
    assert "no carrier" in alone["packet"]["why_not"]
    text = in_namespace(script)
    assert ("(not the initial network namespace)" in text) == (listed["first_namespace"] is False)
    assert "packet:near  xdp:near" in text
    assert "unavailable: other: the interface is down; run: ip link set dev other up" in text


@pytest.mark.skipif(not FAKE_VERBS.exists(), reason=f"needs the fake verbs library: {FAKE_VERBS} is not built")
def test_rdma_devices_show_capabilities_and_reasons():
    script = "ip link set lo up; export LD_PRELOAD=" + str(FAKE_VERBS)
    listed = json.loads(in_namespace(script, "--json", FAKE_VERBS_DEVICES="lo", FAKE_VERBS_RATE="1000-100000000"))
    assert listed["verbs"]["why_not"] is None
    port, = listed["verbs"]["ports"]
    assert port == {"wire": "verbs:lo/1", "able": True, "why_not": None, "state": "active", "link_layer": "Ethernet",
                    "interface": "lo", "raw_packets": True, "ibv_wr": True, "hardware_times": True,
                    "pacing": {"least_bits_per_second": 1_000_000, "most_bits_per_second": 100_000_000_000}}
    text = in_namespace(script, FAKE_VERBS_DEVICES="lo", FAKE_VERBS_RATE="1000-100000000")
    assert ("  verbs:lo/1  active  Ethernet  lo  raw packets, ibv_wr_*, hardware times, pacing 1 Mbit/s to 100 Gbit/s\n"
            in text)
    text = in_namespace(script, FAKE_VERBS_DEVICES="lo", FAKE_VERBS_WITHOUT="raw")
    assert "unavailable: verbs:lo/1: the driver of lo does not support raw-packet QPs" in text
    text = in_namespace(script, FAKE_VERBS_DEVICES="lo", FAKE_VERBS_LINK_LAYER="infiniband")
    assert "link layer of the port is InfiniBand; raw packets require Ethernet" in text
    text = in_namespace(script)
    assert "none: verbs: the kernel has no RDMA" in text
