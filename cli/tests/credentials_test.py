"""Credentials of the agent in every program that connects to one, with a real agent on loopback."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
AGENT = COMMAND.parent / "rdmawire-agent"
RPING = ROOT / "captures" / "samples" / "rping.pcap"

pytestmark = pytest.mark.skipif(not AGENT.exists(), reason=f"needs the agent: {AGENT} is not built")


class Agent:
    """A running agent, and the lines of its standard error."""

    def __init__(self, *options):
        self.process = subprocess.Popen([AGENT, "--listen", "tcp:127.0.0.1:0", *map(str, options)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.errors = self.process.communicate(timeout=120)[1].splitlines()


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    """The directories of two agents' credentials."""
    folders = [tmp_path_factory.mktemp("credentials") / name for name in ("this", "other")]
    for folder in folders:
        text = subprocess.run([AGENT, "--make-credentials", folder], capture_output=True, text=True, check=True).stdout
        assert str(folder / "agent.keys") in text and str(folder / "controller.key") in text
        for path, mode in ((folder, 0o700), (folder / "agent.keys", 0o600), (folder / "controller.key", 0o600)):
            assert path.stat().st_mode & 0o7777 == mode
    return folders


def certify(address, *options):
    return [COMMAND, "certify", "--device", f"agent:{address}", "--wire", "null", "--allow", "192.0.2.2", *options]


def replay(address, *options):
    return [COMMAND, "replay", RPING, "--reactive", "--device", f"agent:{address}", "--wire", "null", "--allow", "192.0.2.2", *options]


def fuzz(address, *options):
    return [sys.executable, "-m", "rdmawire.fuzz", "--target", f"agent:{address}", "--wire", "null", "--allow", "192.0.2.2",
            "--executions", "1", *options]


def error_of(command):
    """The last line of standard error, of a command that cannot open its device."""
    environment = {**os.environ, "PYTHONPATH": str(COMMAND.parents[1] / "python")}
    if command[0] == sys.executable and subprocess.run([*command[:3], "--help"], capture_output=True, env=environment).returncode:
        pytest.skip("requires the Python package")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode in (2, 3), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("program", [certify, replay, fuzz])
def test_failures_are_one_sentence_on_both_sides(program, credentials, tmp_path):
    this, other = credentials
    with Agent("--credentials", this / "agent.keys") as agent:
        assert "the agent requires TLS; specify the credentials" in error_of(program(agent.address))
    assert "the controller uses no TLS; specify its credentials" in agent.errors[0]
    with Agent("--credentials", this / "agent.keys") as agent:
        assert "the agent rejected the key with the ID" in error_of(program(agent.address, "--credentials", other / "controller.key"))
    assert "rejected: unknown key ID" in agent.errors[0]
    with Agent() as agent:
        message = error_of(program(agent.address, "--credentials", this / "controller.key"))
        assert "the agent uses no TLS; start it with --credentials" in message
    assert "the controller uses TLS, but the agent was started without --credentials" in agent.errors[0]
    message = error_of(program("tcp:192.0.2.1:18515"))
    assert "an agent on another host requires credentials (rdmawire-agent --make-credentials)" in message
    readable = tmp_path / "readable.key"
    shutil.copy(this / "controller.key", readable)
    readable.chmod(0o644)
    with Agent("--credentials", this / "agent.keys") as agent:
        message = error_of(program(agent.address, "--credentials", readable))
        assert f"{readable}: other users can access this file (mode 0644); use chmod 600" in message


@pytest.mark.parametrize("program", [certify, replay, fuzz])
def test_right_key_reaches_the_device_of_the_agent(program, credentials):
    if Path("/sys/class/infiniband").exists() and any(Path("/sys/class/infiniband").iterdir()):
        pytest.skip("requires a host without RDMA devices")
    with Agent("--credentials", credentials[0] / "agent.keys") as agent:
        message = error_of(program(agent.address, "--credentials", credentials[0] / "controller.key"))
        # The response of the authenticated agent, whose host has no device.
        assert "device" in message and "TLS" not in message and "key" not in message, message
    assert agent.errors == []


@pytest.mark.skipif(shutil.which("openssl") is None, reason="requires the command openssl")
def test_openssl_client_uses_the_documented_parameters(credentials):
    [line] = [line for line in (credentials[0] / "controller.key").read_text().splitlines() if not line.startswith("#")]
    identity, digits = line.split()
    with Agent("--credentials", credentials[0] / "agent.keys") as agent:
        client = subprocess.Popen(
            ["openssl", "s_client", "-connect", agent.address.removeprefix("tcp:"), "-tls1_3", "-ciphersuites",
             "TLS_AES_128_GCM_SHA256", "-psk_identity", identity, "-psk", digits, "-quiet"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        client.stdin.write('{"id":1,"do":"hello","protocol":1}\n')
        client.stdin.flush()
        response = client.stdout.readline()
        client.kill()
        assert '{"id":1,"result":{' in response, client.communicate()
