"""scripts/setup.sh on machines that are not set up: each failure ends with one sentence that contains the remedy."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SETUP = ROOT / "scripts" / "setup.sh"

# The real programs that the script may use. All other programs on its PATH are fakes.
REAL = """awk bash cat cut df dirname env grep head id mkdir mv nproc rm sed sleep sort tail tee tr true uname wc xargs""".split()

FAKES = {
    # dpkg-query knows the packages in the file `known_to_dpkg` and lists those in `installed`.
    "dpkg-query": """
status=0
for name in "${@:3}"; do
  if grep -qxF "$name" "$STATE/installed"; then printf 'ii :%s:\\n' "$name"
  elif grep -qxF "$name" "$STATE/known_to_dpkg"; then printf 'un :%s:\\n' "$name"
  else printf 'dpkg-query: no packages found matching %s\\n' "$name" >&2; status=1; fi
done
exit $status""",
    "apt-cache": """
shift
for name in "$@"; do
  grep -qxF "$name" "$STATE/known_to_apt" && printf '%s:\\n  Installed: (none)\\n  Candidate: 1.0\\n' "$name"
done
exit 0""",
    # apt-get prints the file `apt-update` or `apt-install` without its first line, which is the exit status.
    "apt-get": """
printf '%s\\n' "$*" >>"$STATE/calls"
while [[ $1 == -* ]]; do [[ $1 == -o ]] && shift; shift; done
if [[ -e $STATE/apt-$1 ]]; then
  tail -n +2 "$STATE/apt-$1"
  exit "$(head -n 1 "$STATE/apt-$1")"
fi
if [[ $1 == install ]]; then for name in "$@"; do printf '%s\\n' "$name" >>"$STATE/installed"; done; fi""",
    "sudo": """
[[ -e $STATE/sudo-refuses ]] && { echo 'sudo: a password is required' >&2; exit 1; }
[[ $1 == --non-interactive ]] && shift
printf 'sudo %s\\n' "$*" >>"$STATE/calls"
exec "$@" """,
}


class Machine:
    """A directory with the programs of a machine, and the state of its package database."""

    def __init__(self, directory):
        self.state, self.bin, self.work = (directory / name for name in ("state", "bin", "work"))
        for place in (self.state, self.bin, self.work):
            place.mkdir()
        for name in ("known_to_dpkg", "known_to_apt", "installed", "calls"):
            self.put(name)
        for name in REAL:
            (self.bin / name).symlink_to(shutil.which(name))
        for name, text in FAKES.items():
            self.program(name, text)
        self.program("id", "echo 0")
        self.program("df", "printf 'Filesystem\\n/dev/sda 9 9 99000000 1%% /\\n'")

    def program(self, name, text):
        path = self.bin / name
        path.unlink(missing_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        path.chmod(0o755)

    def without(self, *names):
        for name in names:
            (self.bin / name).unlink()

    def put(self, name, *lines):
        (self.state / name).write_text("".join(f"{line}\n" for line in lines))

    def has(self, *names):
        self.put("known_to_dpkg", *names)
        self.put("known_to_apt", *names)

    def calls(self):
        return (self.state / "calls").read_text().splitlines()

    def run(self, command, **environment):
        script = f"source {SETUP}; this_command=./demo; set -euo pipefail; {command}"
        return subprocess.run([self.bin / "bash", "-c", script, "./demo"], cwd=self.work, capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL,
                              env={"PATH": str(self.bin), "STATE": str(self.state), **environment})

    def refused(self, command, **environment):
        """The one line on standard error of a command that ends with status 3."""
        done = self.run(command, **environment)
        lines = done.stderr.splitlines()
        assert (done.returncode, len(lines)) == (3, 1), done
        assert lines[0].startswith("demo: ")
        return lines[0]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_packages_unknown_to_dpkg_are_missing(machine):
    machine.put("known_to_apt", "alpha", "beta")
    done = machine.run("install_packages alpha beta")
    assert done.returncode == 0, done
    assert "installing 2 packages: alpha beta" in done.stdout
    assert [call.split()[-2:] for call in machine.calls()[1:]] == [["alpha", "beta"]]


def test_only_missing_packages_are_installed(machine):
    machine.has("alpha", "beta", "gamma")
    machine.put("installed", "beta")
    assert machine.run("install_packages alpha beta gamma").returncode == 0
    assert [" update" in call or call.endswith(" alpha gamma") for call in machine.calls()] == [True, True]


def test_complete_installation_uses_neither_apt_nor_sudo(machine):
    machine.has("alpha")
    machine.put("installed", "alpha")
    machine.program("id", "echo 1000")
    machine.put("sudo-refuses")
    done = machine.run("install_packages alpha")
    assert (done.returncode, done.stdout, machine.calls()) == (0, "", [])


def test_optional_packages_are_installed_where_apt_knows_them(machine):
    machine.has("alpha", "beta")
    assert machine.run("install_packages alpha 'beta?' 'gamma?'").returncode == 0
    assert machine.calls()[-1].endswith(" alpha beta")
    machine.put("calls")
    assert machine.run("install_packages alpha 'beta?' 'gamma?'").returncode == 0
    assert machine.calls() == []


def test_ordinary_user_installs_with_sudo(machine):
    machine.has("alpha")
    machine.program("id", "echo 1000")
    assert machine.run("install_packages alpha").returncode == 0
    assert [call.split()[0] for call in machine.calls()] == ["sudo", "sudo", "-o", "sudo", "-o"]


def test_ordinary_user_without_sudo_gets_the_command_for_root(machine):
    machine.has("alpha")
    machine.program("id", "echo 1000")
    machine.without("sudo")
    assert "as root, run 'apt-get install alpha', then ./demo again" in machine.refused("install_packages alpha")
    assert machine.calls() == []


def test_refusal_of_sudo_gives_the_command_for_root(machine):
    machine.has("alpha")
    machine.program("id", "echo 1000")
    machine.put("sudo-refuses")
    line = machine.refused("install_packages alpha")
    assert "sudo refused: as root, run 'apt-get install alpha', then ./demo again" in line


@pytest.mark.parametrize("step, output, expected", [
    ("update", "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 17 (apt-get)\n"
               "E: Unable to lock directory /var/lib/apt/lists/",
     "another program uses the package database (apt-get, process 17): wait for its end, then run ./demo again"),
    ("install", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4 (unattended-upgr)\n"
                "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?",
     "another program uses the package database (unattended-upgr, process 4)"),
    ("install", "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem.",
     "run 'dpkg --configure -a', then run ./demo again"),
    ("install", "E: You don't have enough free space in /var/cache/apt/archives/.", "the disk is full: free at least 1 GB"),
    ("install", "dpkg: error processing archive /var/cache/apt/archives/alpha_1.deb (--unpack):\n"
                " cannot copy extracted data: failed to write (No space left on device)\n"
                "E: Sub-process /usr/bin/dpkg returned an error code (1)", "the disk is full"),
    ("install", "Err:1 http://mirror.test alpha 1.0\n  Could not connect to mirror.test:80\n"
                "E: Failed to fetch http://mirror.test/alpha.deb", "the package mirror cannot be reached: check the network"),
    ("install", "Setting up beta (1.0) ...\ndpkg: error processing package alpha (--configure):\n"
                "E: Sub-process /usr/bin/dpkg returned an error code (1)",
     "dpkg failed at alpha: run 'apt-get --fix-broken install', then run ./demo again"),
    ("install", "The following packages have unmet dependencies:\nE: Unable to correct problems, you have held broken packages.",
     "apt finds conflicting versions"),
])
def test_failure_of_apt_is_explained_in_one_sentence(machine, step, output, expected):
    machine.has("alpha")
    machine.put(f"apt-{step}", 100, *output.splitlines())
    line = machine.refused("install_packages alpha")
    assert expected in line and line.endswith("(log: build/apt.log)")


def test_failure_for_an_ordinary_user_names_sudo(machine):
    machine.has("alpha")
    machine.program("id", "echo 1000")
    machine.put("apt-install", 100, "E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a'")
    assert "run 'sudo dpkg --configure -a'" in machine.refused("install_packages alpha")


def test_unreachable_mirror_without_lists_is_reported_as_such(machine):
    # apt-get update then ends with status 0, and apt knows no package.
    machine.put("apt-update", 0, "Err:1 http://mirror.test stable InRelease",
                "  Temporary failure resolving 'mirror.test'", "W: Some index files failed to download.")
    assert "the package mirror cannot be reached" in machine.refused("install_packages alpha")


def test_unexpected_failure_of_apt_shows_its_output(machine):
    machine.has("alpha")
    machine.put("apt-install", 100, "E: Something unforeseen")
    done = machine.run("install_packages alpha")
    assert done.returncode == 3
    assert done.stderr.splitlines() == ["E: Something unforeseen",
                                        "demo: apt-get failed: correct the error above, then run ./demo again (log: build/apt.log)"]


def test_distribution_without_the_packages_is_named_with_the_supported_ones(machine):
    machine.put("known_to_apt", "alpha")
    line = machine.refused("install_packages alpha beta gamma")
    assert "the packages beta gamma do not exist for " in line
    assert "use Debian 12, Debian 13 and Ubuntu 24.04, or" in line and "RDMAWIRE_INSTALL=no ./demo" in line
    assert not [call for call in machine.calls() if " install " in call]


def test_full_disk_is_reported_before_apt_starts(machine):
    machine.has("alpha")
    machine.program("df", "printf 'Filesystem\\n/dev/sda 9 9 20480 1%% /\\n'")
    assert "needs 1000 MB of free disk space in /, and 20 MB are free" in machine.refused("install_packages alpha")
    assert machine.calls() == []


def test_installation_can_be_switched_off(machine):
    assert machine.run("install_packages alpha", RDMAWIRE_INSTALL="no").returncode == 0
    assert machine.calls() == []


@pytest.mark.parametrize("manager, expected, absent", [
    ("dnf", "sudo dnf install gcc-c++ cmake ninja-build ", "liblwip-dev"),
    ("pacman", "sudo pacman -S --needed gcc cmake ninja ", "liblwip-dev"),
    (None, "install the equivalents of these Debian packages: g++ cmake ninja-build ", ""),
])
def test_system_without_apt_gets_its_own_command(machine, manager, expected, absent):
    machine.without("apt-get", "dpkg-query", "apt-cache")
    machine.program("uname", "echo Linux")
    if manager:
        machine.program(manager, "exit 0")
    line = machine.refused("install_packages alpha")
    assert "(missing: cmake ninja ccache pkg-config c++ python3)" in line
    assert expected in line and absent in line and line.endswith("then run ./demo again")


def test_system_without_apt_that_has_the_tools_continues(machine):
    machine.without("apt-get", "dpkg-query", "apt-cache")
    machine.program("uname", "echo Linux")
    for name in ("cmake", "ninja", "ccache", "pkg-config", "c++", "python3"):
        machine.program(name, "exit 0")
    done = machine.run("install_packages alpha")
    assert (done.returncode, "using the installed packages" in done.stdout) == (0, True), done


def test_macos_is_referred_to_a_virtual_machine(machine):
    machine.without("apt-get", "dpkg-query", "apt-cache")
    machine.program("uname", "echo Darwin")
    line = machine.refused("install_lists demo")
    assert "needs Linux, and this is Darwin" in line and "Debian 13" in line and "brew install cmake ninja " in line


def test_old_bash_is_refused_before_newer_features_are_used(machine):
    # BASH_VERSINFO is read-only.
    script = SETUP.read_text().replace("BASH_VERSINFO[0]", "4").replace("BASH_VERSINFO[1]", "3")
    (machine.work / "setup.sh").write_text(script)
    line = machine.refused(f"source {machine.work / 'setup.sh'}; install_lists demo")
    assert "is too old: install bash 4.4 or newer" in line


@pytest.mark.parametrize("macros, expected", [
    ("__clang_major__ 10", "is gcc 10, which is too old: install gcc 12 or clang 14"),
    ("13 4", "is clang 13, which is too old: install clang 14 or gcc 12"),
    ("", "does not compile an empty file"),
])
def test_too_old_compiler_is_refused(machine, macros, expected):
    machine.program("c++", f"cat >/dev/null; echo '{macros}'")
    assert expected in machine.refused("check_tools")


@pytest.mark.parametrize("macros", ["__clang_major__ 12", "14 4"])
def test_supported_compilers_are_accepted_and_old_cmake_is_refused(machine, macros):
    machine.program("c++", f"cat >/dev/null; echo '{macros}'")
    machine.program("cmake", "echo cmake version 3.25.1")
    assert machine.run("check_tools").returncode == 0
    machine.program("cmake", "echo cmake version 3.22.1")
    assert "CMake 3.22.1 is too old: install CMake 3.25 or newer" in machine.refused("check_tools")


def test_missing_compiler_is_named(machine):
    assert 'there is no C++ compiler "clang++-99"' in machine.refused("check_tools", CXX="clang++-99")


def test_real_compiler_of_this_machine_is_accepted():
    done = subprocess.run(["bash", "-c", f"source {SETUP}; check_tools"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def fake_build(machine, *lines, status=0):
    machine.program("cmake", f"""[[ $1 == --preset ]] && exit 0
printf '%s\\n' {" ".join(f"'{line}'" for line in lines)}
exit {status}""")
    machine.program("ninja", "echo 1.11.1")


def test_build_reports_progress_and_keeps_the_log(machine):
    fake_build(machine, *(f"@ {n} 40 - Building CXX object a/b/CMakeFiles/lib.dir/c{n}.cpp.o" for n in range(1, 41)))
    done = machine.run("SECONDS=0; last=0; build_preset demo build/x.log")
    assert done.returncode == 0 and len((machine.work / "build/x.log").read_text().splitlines()) == 40


def test_progress_contains_percentage_step_and_remaining_time(machine):
    lines = "".join(f"@ {n} 40 1:{n:02d} Building CXX object a/b/CMakeFiles/lib.dir/c{n}.cpp.o\\n" for n in (10, 20, 30))
    done = machine.run(f"{{ printf '{lines[:65]}'; sleep 10.5; printf '{lines}'; }} | build_progress")
    assert done.stdout.splitlines() == ["   25 %  10 of 40  1:10 left  a/b/c10.cpp"]


def test_progress_names_the_parts_of_a_component(machine):
    line = "@ 10 40 1:10 Building CXX object a/b/CMakeFiles/lib.dir/Unity/unity_12_cxx.cxx.o"
    done = machine.run(f"{{ sleep 10.5; printf '{line}\\n'; }} | build_progress")
    assert done.stdout.splitlines() == ["   25 %  10 of 40  1:10 left  a/b, part 12"]


def test_failed_build_shows_the_errors_of_the_failed_steps_only(machine):
    fake_build(machine, "@ 1 3 - Building CXX object a.o", "a.cpp: warning: unimportant", "FAILED: b.o", "c++ b.cpp",
               "b.cpp:1:1: error: expected a declaration", "@ 3 3 - Building CXX object c.o", status=1)
    done = machine.run("build_preset demo build/x.log")
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["FAILED: b.o", "c++ b.cpp", "b.cpp:1:1: error: expected a declaration"]


def test_full_disk_during_build_is_reported(machine):
    fake_build(machine, "FAILED: b.o", "b.s: fatal error: No space left on device", status=1)
    done = machine.run("build_preset demo build/x.log")
    assert done.stderr.splitlines()[-1] == "the disk is full: free some space, then run ./demo again"


def make_venv(directory, **environment):
    return subprocess.run(["bash", "-c", f"source {SETUP}; set -euo pipefail; make_venv", "./test"], cwd=directory,
                          capture_output=True, text=True, env={**os.environ, **environment}, timeout=120)


def test_venv_works_at_its_final_path(tmp_path):
    (tmp_path / "requirements-dev.txt").write_text("# none\n")
    assert make_venv(tmp_path).returncode == 0
    pip = subprocess.run([tmp_path / ".venv/bin/pip", "--version"], capture_output=True, text=True)
    assert str(tmp_path / ".venv/lib") in pip.stdout
    assert ".venv.new" not in (tmp_path / ".venv/pyvenv.cfg").read_text()
    assert make_venv(tmp_path).stdout == "", "made again without a change"


def test_failure_of_pip_leaves_the_earlier_venv(tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "earlier").touch()
    (tmp_path / "requirements-dev.txt").write_text("alpha==1.0\n")
    done = make_venv(tmp_path, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="1", PIP_NO_INDEX="0", PIP_FIND_LINKS="",
                     no_proxy="127.0.0.1")
    assert done.returncode == 3
    assert done.stderr.splitlines() == ["test: the Python package index cannot be reached: check the network and pip's proxy "
                                        "setting, then run ./test again (log: build/venv.log)"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".venv", "build", "requirements-dev.txt"]
    assert (tmp_path / ".venv" / "earlier").exists()


@pytest.mark.parametrize("pattern, status, output", [("^b", 0, "b\nc\n"), ("^x", 3, "")])
def test_excerpt_of_demo_without_a_matching_line_is_an_error(pattern, status, output):
    script = f"""source {SETUP}; set -euo pipefail; source <(sed -n '/^excerpt() {{/,/^}}/p' {ROOT / "demo"})
                 printf 'a\\nb\\nc\\n' | excerpt 5 '{pattern}'"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout.replace("  (2 of 3 lines)\n", "").replace("  (0 of 3 lines)\n", "")) == (status, output)
    assert (f'no line that matches "{pattern}"' in done.stderr) == bool(status)
