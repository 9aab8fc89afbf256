"""rdmawire.distributed on a real cluster of this machine: the same report as on one machine, whatever happens."""

import os
import signal
import time
from pathlib import Path

import pytest
import rdmawire

distributed = pytest.importorskip("distributed", reason="needs dask.distributed (requirements-dev.txt)")
import rdmawire.distributed  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(str(path) for path in (ROOT / "captures" / "samples").iterdir() if ".pcap" in path.name)


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=False,
        host="127.0.0.1",
    ) as cluster, distributed.Client(cluster) as client:
        yield client


def test_equals_one_machine_exactly(client):
    alone = rdmawire.analyze(SAMPLES).to_dict()
    assert len(SAMPLES) > 15 and alone["summary"]["packets"] > 10_000
    assert rdmawire.distributed.analyze(SAMPLES, client).to_dict() == alone


@pytest.mark.parametrize("options", [{"shares": 1}, {"shares": 13, "portion_octets": 100_000}])
def test_shares_and_portions_change_nothing(client, options):
    files = [name for name in SAMPLES if "loss" in name]
    assert rdmawire.distributed.analyze(files, client, **options).to_dict() == rdmawire.analyze(files).to_dict()


def test_frames_may_go_through_a_shared_directory(client, tmp_path):
    files = SAMPLES[:6]
    report = rdmawire.distributed.analyze(files, client, scratch=tmp_path)
    assert report.to_dict() == rdmawire.analyze(files).to_dict()
    assert list(tmp_path.iterdir()) == []  # and nothing is left there


def test_boundaries_are_the_whole_captures(client):
    file = str(ROOT / "captures" / "samples" / "rping.pcap")
    report = rdmawire.distributed.analyze(file, client, begin="3.25", end="frame:200").to_dict()
    assert report == rdmawire.analyze(file, begin="3.25", end="frame:200").to_dict()
    assert report["summary"]["packets"] < 200


def test_progress_is_told_and_may_end_it(client):
    seen = []
    rdmawire.distributed.analyze(SAMPLES[:3], client, shares=2, progress=lambda *step: seen.append(step))
    assert [step for step in seen if step[0] == "survey"] == [("survey", n, 3) for n in (1, 2, 3)]
    assert seen[-1] == ("track", 2, 2)

    def enough(*_step):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        rdmawire.distributed.analyze(SAMPLES[:3], client, progress=enough)


def test_files_that_cannot_be_read_are_told(client, tmp_path):
    broken = tmp_path / "cut.pcap"
    broken.write_bytes((ROOT / "captures" / "samples" / "rping.pcap").read_bytes()[:5000])
    report = rdmawire.distributed.analyze([str(broken), str(tmp_path / "none.pcap")], client)
    alone = rdmawire.analyze([str(broken), str(tmp_path / "none.pcap")])
    assert report.to_dict() == alone.to_dict()
    assert sorted(report.troubles) == sorted(alone.troubles) and len(report.troubles) == 2
    with pytest.raises(rdmawire.CaptureError, match="none.pcap"):
        rdmawire.distributed.analyze(tmp_path / "none.pcap", client)


def test_wrong_use(client):
    with pytest.raises(rdmawire.UsageError, match="no files"):
        rdmawire.distributed.analyze([], client)
    with pytest.raises(rdmawire.UsageError, match="no place in a capture"):
        rdmawire.distributed.analyze(SAMPLES[:1], client, begin="yesterday", retries=0)
    with pytest.raises(rdmawire.UsageError, match="shares"):
        rdmawire.distributed.analyze(SAMPLES[:1], client, shares=0)


def test_a_lost_worker_is_made_up_for(client):
    """One worker is killed while frames are divided; the nanny starts another, and the result is the same."""
    files = [name for name in SAMPLES if "read" in name]
    alone = rdmawire.analyze(files).to_dict()
    killed = []

    def kill_one(stage, done, _all):
        if stage == "divide" and done == 2 and not killed:
            pid = next(iter(client.run(os.getpid).values()))
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

    report = rdmawire.distributed.analyze(files, client, shares=6, portion_octets=100_000, progress=kill_one)
    assert killed
    assert report.to_dict() == alone
    # The next test has two workers again.
    deadline = time.monotonic() + 60
    while len(client.nthreads()) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(client.nthreads()) == 2
