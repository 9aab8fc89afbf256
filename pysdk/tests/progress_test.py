"""Progress bars: shown on a terminal, silent elsewhere and when switched off."""

import os
import pty
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import rdmawire
from rdmawire import conformance, fuzz
from rdmawire.progress import bar_of, bytes_bar
from sample_captures import RPING

PYTHONPATH = str(Path(rdmawire.__file__).parents[1])
CAPTURE = str(RPING)


def run_on_terminal(program, **environment):
    """Run a program whose standard error is a terminal, and return what it shows."""
    leader, follower = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, stderr=follower,
        env=dict(os.environ, PYTHONPATH=PYTHONPATH, **environment),
    )  # fmt: skip
    os.close(follower)
    shown = b""
    try:
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:  # end of file of a pseudo terminal
        pass
    os.close(leader)
    out = running.communicate(timeout=60)[0].decode()
    assert running.returncode == 0, shown
    return out, shown.decode()


# The default bar of a session of the fuzzer appears after half a second.
SESSION = """
    import rdmawire
    from rdmawire import fuzz
    with fuzz.Session(seed=1) as session:
        session.run(seconds=1.5)
"""


def test_bar_is_shown_on_a_terminal_and_removed_at_the_end():
    out, shown = run_on_terminal(SESSION)
    assert out == ""
    assert "fuzz:" in shown
    assert "0 findings" in shown
    assert shown.endswith("\r")
    assert shown.split("\r")[-2].strip() == ""


@pytest.mark.parametrize(
    ("program", "environment"),
    [
        (SESSION.replace("seconds=1.5", "seconds=1.5, progress=False"), {}),
        (SESSION.replace("    with", "    rdmawire.progress_bars(False)\n    with"), {}),
        (SESSION, {"RDMAWIRE_PROGRESS": "0"}),
        (SESSION.replace("import rdmawire\n", "import sys; sys.modules['tqdm'] = None; import rdmawire\n"), {}),
        (SESSION.replace("1.5", "0.2"), {}),  # a short call
    ],
    ids=["argument", "process", "environment", "without tqdm", "short"],
)
def test_no_bar_when_switched_off(program, environment):
    assert run_on_terminal(program, **environment) == ("", "")


def test_no_bar_without_a_terminal(capfd):
    with fuzz.Session(seed=1) as session:
        session.run(seconds=1)
    rdmawire.analyze(CAPTURE)
    assert capfd.readouterr() == ("", "")


def test_bar_in_a_notebook(monkeypatch, capfd):
    import types

    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    with fuzz.Session(seed=1) as session:
        session.run(seconds=1.2)
    assert "fuzz:" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("title", "work"),
    [
        ("analyze", lambda path: rdmawire.analyze(CAPTURE, progress=True)),
        ("check", lambda path: rdmawire.check(CAPTURE, progress=True)),
        ("parquet", lambda path: rdmawire.open_capture(CAPTURE).table(["bth.psn"]).to_parquet(path, progress=True)),
        ("certify", lambda path: conformance.certify(only="RSP-009", seed=1, progress=True)),
        ("replay", lambda path: rdmawire.replay(CAPTURE, f"file:{path}", topspeed=True, progress=True)),
        ("fuzz", lambda path: fuzz.Session(seed=1).run(executions=200, progress=True)),
    ],
)
def test_long_work_has_a_bar(title, work, tmp_path, capfd):
    work(tmp_path / "x.pcap")
    assert f"{title}:" in capfd.readouterr().err


def test_function_of_the_caller_replaces_the_bar(tmp_path, capfd):
    seen = []
    with fuzz.Session(seed=1) as session:
        session.run(seconds=0.5, progress=seen.append)
    assert seen
    assert all(isinstance(one, fuzz.Statistics) for one in seen)
    rows = []
    rdmawire.open_capture(CAPTURE).table(["bth.psn"]).to_parquet(tmp_path / "x", progress=rows.append)
    assert rows[-1] > 0
    assert capfd.readouterr() == ("", "")


def test_bar_counts_up_to_the_total(capfd):
    with bar_of(True, "work", 10, "it") as show:
        show(5, "half")
        time.sleep(0.2)  # tqdm draws ten times per second
        show(10, "all")
        show(9, "never backwards")
    assert "10/10" in capfd.readouterr().err
    with bytes_bar(True, "read") as show:
        time.sleep(0.2)
        show(1000, 1 << 20, 2 << 20, "/tmp/x.pcap")
    assert "1,000 packets, x.pcap" in capfd.readouterr().err


def test_missing_tqdm_is_an_error_only_if_a_bar_is_requested(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    rdmawire.analyze(CAPTURE)
    with pytest.raises(rdmawire.UsageError, match=r"need the package tqdm: pip install 'rdmawire\[progress\]'"):
        rdmawire.analyze(CAPTURE, progress=True)


@pytest.mark.parametrize("function", [rdmawire.analyze, rdmawire.check])
def test_progress_of_another_type_is_rejected(function):
    with pytest.raises(TypeError, match="progress: expected a function, True, False or None, got int"):
        function(CAPTURE, progress=5)
