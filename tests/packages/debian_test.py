"""The Debian packages: contents, dependencies, lintian, and installation in a fresh root."""

import gzip
import re
from pathlib import Path

import pytest
from packages import DEB_NAMES, ROOT, deb, fresh_machine, needs, needs_full, run, unpack

pytestmark = needs("dpkg-deb")


def files_of(package):
    """The files of a package, without its directories."""
    rows = run("dpkg-deb", "--contents", package).stdout.splitlines()
    return [re.split(r"\s+", row, maxsplit=5)[5].removeprefix(".").split(" -> ")[0] for row in rows if not row.startswith("d")]


def field(package, name):
    return run("dpkg-deb", "--field", package, name).stdout.strip()


@pytest.mark.parametrize("name", DEB_NAMES)
def test_package_contains_only_its_own_files(name):
    own = r"rdmawire|/usr/share/wireshark/profiles/RDMA/"
    assert [path for path in files_of(deb(name)) if not re.search(own, path)] == []


@pytest.mark.parametrize("name", DEB_NAMES)
def test_package_has_copyright_changelog_and_notices(name):
    files = files_of(deb(name))
    for part in ("copyright", "changelog.gz", "THIRD-PARTY-NOTICES.gz"):
        assert f"/usr/share/doc/{name}/{part}" in files


def test_command_package_contains_command_and_examples():
    files = files_of(deb("rdmawire"))
    assert "/usr/bin/rdmawire" in files
    assert "/usr/share/doc/rdmawire/examples/rc-read-loss.pcap.zst" in files


@pytest.mark.parametrize("name", ["rdmawire", "rdmawire-agent"])
def test_completions_are_in_the_directories_of_the_shells(name):
    files = files_of(deb(name))
    for path in (f"bash-completion/completions/{name}", f"zsh/vendor-completions/_{name}",
                 f"fish/vendor_completions.d/{name}.fish"):
        assert f"/usr/share/{path}" in files


@pytest.mark.parametrize("name", DEB_NAMES)
def test_package_contains_no_path_of_the_build(name, tmp_path):
    tree = unpack(deb(name), tmp_path)
    build = str(ROOT).encode()
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            content = gzip.decompress(content) if path.suffix == ".gz" else content
            assert build not in content, path.relative_to(tree)


def test_agent_is_static_and_needs_no_package(tmp_path):
    package = deb("rdmawire-agent")
    assert field(package, "Depends") == ""
    tree = unpack(package, tmp_path)
    assert (tree / "usr/lib/systemd/system/rdmawire-agent.service").is_file()
    program = tree / "usr/bin/rdmawire-agent"
    dynamic = run("readelf", "--dynamic", program).stdout
    assert "NEEDED" not in dynamic
    assert "INTERP" not in run("readelf", "--program-headers", program).stdout
    # The oldest kernel that this C library supports. Every distribution since 2014 has a newer kernel.
    assert "for GNU/Linux 3.2.0" in run("file", program).stdout
    assert run(program, "--version").stdout.startswith("rdmawire-agent ")


def test_shared_library_has_a_soname_and_shlibs(tmp_path):
    package = deb("librdmawire0.1")
    control = tmp_path / "control"
    run("dpkg-deb", "--control", package, control)
    assert (control / "shlibs").read_text().startswith("librdmawire 0.1 librdmawire0.1")
    [library] = unpack(package, tmp_path / "tree").rglob("librdmawire.so.0.1")
    assert re.search(r"SONAME.*\[librdmawire\.so\.0\.1\]", run("readelf", "--dynamic", library).stdout)


@needs("lintian")
@pytest.mark.parametrize("name", DEB_NAMES)
def test_lintian_reports_no_error_and_no_warning(name):
    found = run("lintian", "--allow-root", "--no-cfg", "--fail-on", "none", deb(name)).stdout.splitlines()
    assert [line for line in found if line.startswith(("E:", "W:"))] == []


INSTALL = """
tree() { find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /root -o -path /var/log \\
  -o -path /var/cache -o -path /var/lib/apt -o -path /var/lib/dpkg \\) -prune -o -print | sort; }
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends tshark python3 >/dev/null
apt-get install -y -qq --no-install-recommends --download-only ~/files/*.deb >/dev/null
tree >/tmp/before
apt-get install -y -qq --no-install-recommends ~/files/*.deb >/dev/null
echo "== example"
cd /usr/share/doc/rdmawire/examples
rdmawire analyze rc-read-loss.pcap.zst | head -n 12
echo "== agent"
rdmawire-agent --version
echo "== wireshark"
tshark -G plugins | grep rdmawire
tshark -2 -r rc-read-loss.pcap.zst -Y rdmawire.analysis.retransmission 2>/dev/null | wc -l
echo "== python"
cd /
python3 - <<'CODE'
import rdmawire, importlib.metadata
with rdmawire.open_capture("/usr/share/doc/rdmawire/examples/rping.pcap") as capture:
    print(sum(1 for frame in capture.frames()), "frames")
print(importlib.metadata.version("rdmawire") == rdmawire.__version__)
print([entry.value for entry in importlib.metadata.entry_points(group="pytest11")])
CODE
python3 -m rdmawire explain syndrome 0x60 | head -n 1
echo "== listed"
dpkg -L rdmawire rdmawire-agent rdmawire-wireshark python3-rdmawire | sort -u | while read -r path; do
  [[ -e $path ]] || echo "missing $path"
done
echo "== left"
apt-get purge -y -qq rdmawire rdmawire-agent rdmawire-wireshark python3-rdmawire >/dev/null
apt-get autoremove --purge -y -qq >/dev/null
tree >/tmp/after
diff /tmp/before /tmp/after | grep '^[<>]' || true
"""


def sections(text):
    """The parts of an output between lines "== NAME"."""
    parts = re.split(r"^== (\w+)$", text, flags=re.M)
    return {parts[i]: parts[i + 1].strip() for i in range(1, len(parts), 2)}


@needs_full
def test_install_and_purge_in_fresh_root_leave_no_file():
    names = ("rdmawire", "rdmawire-agent", "rdmawire-wireshark", "python3-rdmawire")
    output = sections(fresh_machine(INSTALL, *(deb(name) for name in names)).stdout)
    readme = (ROOT / "README.md").read_text()
    shown = output["example"].splitlines()[1:]
    assert shown and all(line.strip() in readme for line in shown)
    assert output["agent"].startswith("rdmawire-agent ")
    assert "rdmawire.so" in output["wireshark"] and int(output["wireshark"].splitlines()[-1]) > 0
    assert output["python"].splitlines()[:3] == ["379 frames", "True", "['rdmawire.pytest_plugin']"]
    assert "0x60" in output["python"].splitlines()[3]
    assert output["listed"] == ""
    assert output["left"] == ""


DEVELOP = """
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends g++ cmake ninja-build pkg-config ~/files/*.deb >/dev/null
cd tests/consumer
cmake -S . -B /tmp/build -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build /tmp/build >/dev/null
for program in one_component all_components shared; do "/tmp/build/$program"; done
g++ -std=c++20 consumer.cpp -o /tmp/consumer $(pkg-config --cflags --libs rdmawire)
/tmp/consumer
"""


@needs_full
def test_development_package_builds_programs_in_a_fresh_root():
    lines = fresh_machine(DEVELOP, deb("librdmawire0.1"), deb("librdmawire-dev")).stdout.splitlines()
    assert len([line for line in lines if line.startswith("consumer: RC SEND Only")]) == 4, lines


def test_packages_depend_on_python_and_recommend_the_agent():
    assert field(deb("rdmawire"), "Recommends") == "rdmawire-agent"
    depends = field(deb("python3-rdmawire"), "Depends")
    assert re.search(r"python3 \(>= 3\.(\d+)~\), python3 \(<< 3\.\d+\)", depends), depends


def test_packages_are_described_in_the_documentation():
    text = Path(ROOT / "docs/how-to/install.md").read_text()
    assert [name for name in DEB_NAMES if f"`{name}`" not in text] == []
