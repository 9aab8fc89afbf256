"""scripts/release checks a release before it builds anything, and exports the public tree."""

import gzip
import re
import shutil
import subprocess

import pytest
from packages import ROOT, run


@pytest.fixture
def repository(tmp_path):
    """A git repository that is ready for the release 1.2.3."""
    root = tmp_path / "repository"
    (root / "scripts").mkdir(parents=True)
    for name in ("release", "setup.sh", "check-published"):
        shutil.copy(ROOT / "scripts" / name, root / "scripts")
    (root / "CMakeLists.txt").write_text("project(rdmawire VERSION 1.2.3 LANGUAGES CXX)\n")
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-30\n\n- A change.\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", ".")
    git(root, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "All")
    return root


def git(root, *arguments):
    return run("git", *arguments, cwd=root)


def release(root, *arguments):
    return run("scripts/release", *arguments, cwd=root, check=False)


def failed(done):
    return re.findall(r"FAILED +(.*)", done.stdout)


def test_dry_run_passes_and_creates_no_file(repository):
    done = release(repository, "1.2.3")
    assert (done.returncode, failed(done)) == (0, []), done.stdout + done.stderr
    assert "Dry run" in done.stdout and not (repository / "build").exists()


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "", "1.2.3-rc1"])
def test_malformed_version_is_a_usage_error(repository, version):
    done = release(repository, version)
    assert done.returncode == 2 and "three numbers" in done.stderr


def test_other_version_in_cmakelists_fails(repository):
    assert 'CMakeLists.txt has version 1.2.4' in failed(release(repository, "1.2.4"))


def test_second_definition_of_the_version_fails(repository):
    (repository / "setup.py").write_text('version = "1.2.3"\n')
    git(repository, "add", "setup.py")
    assert "no other file defines the version" in failed(release(repository, "1.2.3"))


def test_missing_changelog_entry_fails(repository):
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n- A change.\n")
    assert len(failed(release(repository, "1.2.3"))) == 3  # the entry, the unreleased change, the changed work tree


def test_changed_work_tree_fails(repository):
    (repository / "file").write_text("")
    done = release(repository, "1.2.3")
    assert done.returncode == 1 and failed(done) == ["the work tree has no changes"]
    assert "nothing was built" in done.stderr


def test_existing_tag_fails(repository):
    git(repository, "tag", "v1.2.3")
    assert failed(release(repository, "1.2.3")) == ["the tag v1.2.3 does not exist"]


# ---------------------------------------------------------------------------------------------------------------------
# Embargoed findings and the public tree

FINDINGS = r"""
effects = ['explodes']

[[finding]]
id = "imaginary"
words = ['secret[- ]word']
cases = ["some.rule/some case"]

[[finding.step]]
do = "request"
opcode = [200]
payload = { is = ">", to = 0 }

[[finding.frame]]
pattern = "ca fe <size:2> ?? [01 02] ??*2 99"
where = [["size", ">", 256]]
"""
SCRIPT = '{"seed": 77, "steps": [{"do": "request", "opcode": 201, "payload": 4}]}\n'
FRAME = bytes.fromhex("00 00 ca fe 01 01 77 02 00 00 99 00") + bytes(40)
LEAKS = {
    "word in a page": ("docs/page.md", b"It is the Secret Word.\n", "word 'secret word'"),
    "word in a file name": ("docs/secret-word.txt", b"nothing\n", "word 'secret-word'"),
    "case near an effect": ("results.json", b'{"some.rule/some case": {"reason": "it explodes"}}', "case"),
    "step of a script": ("x.py", b'S = {"do": "request", "opcode": 200, "payload": 1}\n', "step"),
    "frame in a capture": ("corpus/a.pcap", FRAME, "frame at byte 2"),
    "frame in a compressed capture": ("corpus/a.pcap.gz", gzip.compress(FRAME), "frame at byte 2"),
    "frame in a zstd file": ("corpus/a.zst", subprocess.run(["zstd", "-c"], input=FRAME, capture_output=True,
                                                            check=True).stdout, "frame at byte 2"),
    "frame as a hexadecimal dump": ("docs/dump.txt", FRAME.hex(" ").encode(), "frame at byte 2"),
    "frame as a C array": ("a.h", ", ".join(f"0x{byte:02x}" for byte in FRAME).encode(), "frame at byte 2"),
    "copy of an embargoed file": ("corpus/input", SCRIPT.replace(" ", "\n").encode(), "the embargoed file script.json"),
    "damaged archive": ("a.zip", b"PK\x03\x04 no archive", "cannot be unpacked"),
}  # fmt: skip


@pytest.fixture
def embargoed(repository):
    """The repository with an embargoed finding, and harmless files that resemble it."""
    (repository / "embargo").mkdir()
    (repository / "embargo" / "findings.toml").write_text(FINDINGS)
    (repository / "embargo" / "script.json").write_text(SCRIPT)
    (repository / "embargo" / "page.md").write_text("The secret word is here.\n")
    (repository / "harmless.json").write_text('{"some.rule/some case": 1, "do": {"do": "request", "opcode": 200}}\n')
    (repository / "harmless.bin").write_bytes(bytes.fromhex("ca fe 01 00 77 02 00 00 99"))  # size 256 is permitted
    commit(repository)
    return repository


def commit(root):
    git(root, "add", "--all", "--force", ".")
    git(root, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "More")


def test_dry_run_with_embargoed_findings_passes(embargoed):
    done = release(embargoed, "1.2.3")
    assert (done.returncode, failed(done)) == (0, []), done.stdout + done.stderr
    assert "1 findings, 0 traces" in done.stdout


@pytest.mark.parametrize("leak", LEAKS)
def test_planted_leak_fails(embargoed, leak):
    path, content, trace = LEAKS[leak]
    (embargoed / path).parent.mkdir(exist_ok=True)
    (embargoed / path).write_bytes(content)
    commit(embargoed)
    done = release(embargoed, "--export", "../public", "1.2.3")
    assert done.returncode == 1 and failed(done) == ["no published file reveals an embargoed finding"]
    assert re.search(f"^{re.escape(path)}.*: .*{re.escape(trace)}", done.stdout, re.M), done.stdout
    assert not (embargoed.parent / "public").exists()


def test_finding_without_traces_fails(embargoed):
    (embargoed / "embargo" / "findings.toml").write_text('effects = ["x"]\n[[finding]]\nid = "empty"\n')
    commit(embargoed)
    done = release(embargoed, "1.2.3")
    assert done.returncode == 1 and "no trace to search for" in done.stderr


def test_export_has_neither_embargoed_files_nor_history(embargoed):
    public = embargoed.parent / "public"
    done = release(embargoed, "--export", public, "1.2.3")
    assert done.returncode == 0, done.stdout + done.stderr
    names = git(public, "ls-files").stdout.split()
    assert "harmless.json" in names and not [name for name in names if name.startswith("embargo")]
    assert git(public, "log", "--all", "--format=%s").stdout == "rdmawire 1.2.3\n"
    objects = git(public, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").stdout.split()
    assert git(embargoed, "rev-parse", "HEAD:embargo/script.json").stdout.strip() not in objects
    assert git(public, "status", "--porcelain").stdout == ""


def test_next_export_is_a_second_commit(embargoed):
    public = embargoed.parent / "public"
    release(embargoed, "--export", public, "1.2.3")
    (embargoed / "harmless.bin").unlink()
    (embargoed / "new").write_text("new\n")
    commit(embargoed)
    done = release(embargoed, "--export", public, "1.2.3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert git(public, "log", "--format=%s").stdout.splitlines() == ["rdmawire 1.2.3"] * 2
    assert sorted(git(public, "diff", "--name-only", "HEAD^").stdout.split()) == ["harmless.bin", "new"]


def test_export_into_a_repository_with_another_history_fails(embargoed):
    public = embargoed.parent / "public"
    git(embargoed, "clone", "--quiet", embargoed, public)
    done = release(embargoed, "--export", public, "1.2.3")
    assert done.returncode == 1 and "contains embargoed objects" in done.stderr


def test_source_archive_omits_embargoed_files():
    attributes = git(ROOT, "check-attr", "export-ignore", "--", "embargo").stdout
    assert attributes.strip() == "embargo: export-ignore: set"
    assert '"/embargo"' in (ROOT / "pyproject.toml").read_text()
    assert "embargo" in (ROOT / ".dockerignore").read_text().split()
