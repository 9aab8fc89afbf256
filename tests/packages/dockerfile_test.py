"""The steps of the Dockerfile, executed in fresh roots instead of a container engine."""

import re
import shlex

from packages import ROOT, fresh_machine, needs_full

KNOWN = {"FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT", "CMD"}


def instructions():
    """The instructions of the Dockerfile: name and arguments."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text())
    return [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]


def stages():
    """The stages: image, name and instructions of each."""
    made = []
    for name, arguments in instructions():
        if name == "FROM":
            words = arguments.split()
            made.append({"image": words[0], "name": words[2] if len(words) == 3 else None, "steps": []})
        else:
            made[-1]["steps"].append((name, arguments))
    return made


def script_of(stage, directory, earlier):
    """The stage as a script that runs in the root `directory`. `earlier` has the roots of earlier stages."""
    lines, at = [], "/"
    inside = f"chroot {directory} env HOME=/root PATH=$PATH DEBIAN_FRONTEND=noninteractive"
    for name, arguments in stage["steps"]:
        if name == "WORKDIR":
            at = arguments
            lines.append(f"mkdir -p {directory}{at}")
        elif name == "COPY":
            words = arguments.split()
            source = earlier[words.pop(0).removeprefix("--from=")] if words[0].startswith("--from=") else "$HOME/rdmawire"
            target = words[-1] if words[-1].startswith("/") else f"{at}/{words[-1]}"
            lines.append(f"mkdir -p {directory}{target}")
            files = " ".join(f"{source}/{word.lstrip('/')}" for word in words[:-1])
            lines.append(f"cp -a {files.replace('/. ', '/. ')} {directory}{target}/")
        elif name == "RUN":
            lines.append(f"{inside} sh -euc {shlex.quote(f'cd {at}; {arguments}')}")
    return lines


def test_every_instruction_is_known():
    assert {name for name, _ in instructions()} <= KNOWN
    assert [stage["image"] for stage in stages()] == ["debian:bookworm-slim"] * 2


def test_packages_come_from_the_list_of_the_setup_script():
    first = stages()[0]["steps"]
    assert not [arguments for name, arguments in first if name == "RUN" and "apt-get install" in arguments]


@needs_full
def test_steps_give_an_image_with_the_command():
    build, final = stages()
    lines = ["apt-get update -qq", "apt-get install -y -qq --no-install-recommends debootstrap >/dev/null",
             "mirror=$(grep -m1 -oE 'https?://[^ ]+' /etc/apt/sources.list)", "cd /"]
    for stage, root in ((build, "/build"), (final, "/final")):
        lines += [f"debootstrap --variant=minbase --include=ca-certificates bookworm {root} $mirror >/dev/null",
                  f"cp -a /etc/apt/. {root}/etc/apt/; cp /etc/resolv.conf /etc/hosts {root}/etc/; "
                  f"cp -aL /etc/ssl/certs/. {root}/etc/ssl/certs/; mount -t proc proc {root}/proc"]
    lines.append("mkdir -p /build$CCACHE_DIR; mount --bind $CCACHE_DIR /build$CCACHE_DIR")
    lines += script_of(build, "/build", {}) + script_of(final, "/final", {"build": "/build"})
    entry = next(arguments for name, arguments in final["steps"] if name == "ENTRYPOINT")
    program = re.search(r'\["(.+)"\]', entry)[1]
    lines += ["mkdir -p /final/captures; cp $HOME/rdmawire/captures/samples/rc-read-loss.pcap.zst /final/captures",
              f"chroot /final sh -c 'cd /captures; {program} --version; {program} analyze rc-read-loss.pcap.zst | head -n 12; "
              "rdmawire-agent --version'", "du -sm --exclude=/final/proc /final | sed 's/^/image MB /'"]
    output = fresh_machine("\n".join(lines), ccache=True).stdout
    assert "  findings    2 warnings" in output and "rdmawire-agent " in output
    assert int(re.search(r"image MB (\d+)", output)[1]) < 250
