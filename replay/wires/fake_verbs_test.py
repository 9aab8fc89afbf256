#!/usr/bin/env python3
"""Runs unmodified programs from Debian packages on the fake libibverbs: ibv_devinfo, perftest's raw_ethernet_bw and
rdma-core's tests of raw-packet QPs.

usage: fake_verbs_test.py LIBRARY

The test runs in its own network namespace. Exit status: 0 passed, 1 failed, 77 skipped (the reason is printed).
"""

import gzip
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PEERS = Path("/usr/share/doc/rdma-core/tests")
PYTHON = "/usr/bin/python3"  # from Debian, because it has pyverbs
LINKS = """set -e
ip link add near type veth peer name far
for i in near far; do sysctl -qw net.ipv6.conf.$i.disable_ipv6=1; ip link set $i up; done
ip link set near address 02:00:00:00:00:01; ip link set far address 02:00:00:00:00:02
until ip -o link show dev near | grep -q "state UP" && ip -o link show dev far | grep -q "state UP"; do :; done
export LD_PRELOAD="$FAKE_VERBS"
"""

LIBRARY = ""


def in_namespace(script, **variables):
    """Runs a shell script with the devices near and far, the ends of a veth pair."""
    environment = os.environ | {"FAKE_VERBS": LIBRARY, "FAKE_VERBS_DEVICES": "near far"} | variables
    return subprocess.run(["unshare", "-n", "bash", "-c", LINKS + script], env=environment, timeout=120, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def needs(program, package):
    return unittest.skipUnless(shutil.which(program), f"requires {program} from the package {package}")


class Peers(unittest.TestCase):
    @needs("ibv_devinfo", "ibverbs-utils")
    def test_devinfo_prints_the_device(self):
        done = in_namespace("ibv_devinfo -v", FAKE_VERBS_RATE="1000-100000000")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(re.findall(r"hca_id:\s+(\w+)", done.stdout), ["near", "far"])
        self.assertRegex(done.stdout, r"state:\s+PORT_ACTIVE")
        self.assertRegex(done.stdout, r"link_layer:\s+Ethernet")
        self.assertRegex(done.stdout, r"qp_rate_limit_max:\s+100000000kbps\s+supported_qp:\s+SUPPORT_RAW_PACKET")

    @needs("ibv_devinfo", "ibverbs-utils")
    def test_devinfo_without_rdma_in_the_kernel(self):
        done = in_namespace("unset FAKE_VERBS_DEVICES; ibv_devinfo")
        self.assertIn("Function not implemented", done.stdout)

    @needs("raw_ethernet_bw", "perftest")
    def test_perftest_sends_and_receives(self):
        for how in ("", "--sniffer"):
            with self.subTest(how):
                done = in_namespace(f"""
raw_ethernet_bw -d far --server -E 02:00:00:00:00:01 -B 02:00:00:00:00:02 -n 2000 -s 512 {how} & server=$!
# The server's QP is a packet socket; its flow is created shortly after.
until [ $(wc -l < /proc/net/packet) -ge 2 ]; do :; done; sleep 1
raw_ethernet_bw -d near --client -E 02:00:00:00:00:02 -B 02:00:00:00:00:01 -n 2000 -s 512
wait $server""")
                self.assertEqual(done.returncode, 0, done.stdout)
                # Both endpoints report 2000 iterations with 512 bytes.
                self.assertEqual(len(re.findall(r"^ 512 +2000 ", done.stdout, re.M)), 2, done.stdout)

    def rdma_core(self, *which):
        if not PEERS.is_dir():
            self.skipTest("requires the tests in the documentation of the package rdma-core")
        if subprocess.run([PYTHON, "-c", "import pyverbs"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("requires the package python3-pyverbs")
        with tempfile.TemporaryDirectory() as folder:
            tests = Path(folder) / "tests"
            tests.mkdir()
            for file in PEERS.iterdir():
                packed = file.suffix == ".gz"
                data = gzip.decompress(file.read_bytes()) if packed else file.read_bytes()
                (tests / (file.stem if packed else file.name)).write_bytes(data)
            # Newer versions of these tests get the network interface of the device from the command rdma, which needs RDMA in
            # the kernel.
            rdma = Path(folder) / "rdma"
            rdma.write_text("""#!/bin/sh\necho '[{"ifname": "near", "port": 1, "netdev": "near"}]'\n""")
            rdma.chmod(0o755)
            chosen = " ".join(f"-k {name}" for name in which)
            done = in_namespace(f"cd {folder} && PATH={folder}:$PATH {PYTHON} tests/run_tests.py --dev near -v {chosen}",
                                FAKE_VERBS_LOOPBACK="1")
        self.assertEqual(done.returncode, 0, done.stdout)
        return set(re.findall(r"^(test_\w+) \(\S+\)(?:\n.*)? \.\.\. ok$", done.stdout, re.M))

    def test_rdma_core_flow_tests_pass(self):
        kinds = ("eth", "ipv4", "ipv6", "tcp", "udp")
        self.assertLessEqual({f"test_{kind}_spec_flow_traffic" for kind in kinds}, self.rdma_core("FlowTest"))

    def test_rdma_core_raw_qp_tests_pass(self):
        passed = self.rdma_core("raw")
        self.assertLessEqual({"test_create_raw_qp_no_attr", "test_create_raw_qp_with_attr", "test_query_raw_qp",
                              "test_create_raw_qp_ex_no_attr", "test_create_raw_qp_ex_with_attr",
                              "test_timestamp_real_time_raw_traffic"}, passed)


def main():
    global LIBRARY
    LIBRARY = sys.argv.pop(1)
    if subprocess.run(["unshare", "-n", "true"], stderr=subprocess.DEVNULL).returncode:
        print("skipped: requires root for network namespaces")
        return 77
    result = unittest.main(exit=False, verbosity=2).result
    if not result.wasSuccessful():
        return 1
    return 77 if result.testsRun == len(result.skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
