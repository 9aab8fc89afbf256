"""scripts/release checks a release before it builds anything."""

import re
import shutil

import pytest
from packages import ROOT, run


@pytest.fixture
def repository(tmp_path):
    """A git repository that is ready for the release 1.2.3."""
    root = tmp_path / "repository"
    (root / "scripts").mkdir(parents=True)
    for name in ("release", "setup.sh"):
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
