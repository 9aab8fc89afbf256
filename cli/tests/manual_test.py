"""Help, man pages, shell completions and the reference page, which the programs generate from their option tables."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("RDMAWIRE", ROOT / "build" / "dev" / "bin" / "rdmawire"))
AGENT = COMMAND.with_name("rdmawire-agent")

pytestmark = pytest.mark.skipif(not COMMAND.exists() or not AGENT.exists(), reason=f"needs {COMMAND} and {AGENT.name}")


def output_of(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0 and done.stderr == "", done
    return done.stdout


def commands():
    """Every command with its help: {("analyze",): text, ...}; the agent is ("rdmawire-agent",)."""
    found = {}

    def add(path):
        found[path] = output_of(COMMAND, *path, "--help", env={**os.environ, "COLUMNS": "120"})
        part = re.search(r"^Commands:\n((?:  .*\n)+)", found[path], re.M)
        for name in re.findall(r"^  (\w+)", part[1], re.M) if part else []:
            add((*path, name))

    add(())
    found[("rdmawire-agent",)] = output_of(AGENT, "--help")
    return found


@pytest.fixture(scope="module")
def helps():
    if not COMMAND.exists() or not AGENT.exists():
        pytest.skip("needs the programs")
    return commands()


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    if not COMMAND.exists() or not AGENT.exists():
        pytest.skip("needs the programs")
    directory = tmp_path_factory.mktemp("share")
    output_of(COMMAND, "--generate", directory)
    output_of(AGENT, "--generate", directory)
    return directory


# help


def test_help_has_three_examples_and_exit_statuses(helps):
    assert len(helps) == 21
    for path, text in helps.items():
        assert text.startswith(("Analyze", "Boot", "Capture", "Check", "Compare", "Copy", "Execute", "Explain", "List", "Merge", "Open", "Record",
                                "Remove", "Replay", "Run", "Show", "Verify")), path  # fmt: skip
        examples = text.split("\nExamples:\n")[1].split("\n\n")[0].splitlines()
        assert len(examples) == 6, path
        for command, purpose in zip(examples[::2], examples[1::2]):
            assert "rdmawire" in command and re.match(r"      [A-Z].*\.$", purpose), (path, purpose)
        assert re.search(r"^Exit status: (?s:.*?)\b2 usage error", text, re.M), path
        assert max(map(len, text.splitlines())) <= 120, path


def options_of(text):
    """(heading, description) of each option in a help text."""
    for group in re.findall(r"^[A-Z][\w ]*:\n((?:  .*\n)+)", text, re.M):
        for entry in re.split(r"^(?=  (?:-|    --))", group, flags=re.M):
            if match := re.match(r" +(-\S.*?)(?:  +|\n +)([A-Z].*)", re.sub(r"\n {28}", " ", entry), re.S):
                yield match[1], match[2].strip()


def test_each_option_has_a_sentence_without_parser_types(helps):
    count = 0
    for path, text in helps.items():
        for heading, description in options_of(text):
            count += 1
            assert re.match(r"(-\w, )?(--[a-z0-9-]+|-\w)( [A-Z][A-Z/\[\]-]*)?$", heading), (path, heading)
            assert re.match(r"[A-Z][\w-]+ .*\.$", description, re.S), (path, description)
            assert not re.search(r"UINT|FLOAT|TEXT:|\{|\bREQUIRED\b", description), (path, description)
    assert count > 200


def test_examples_parse(helps):
    """Each example's options exist: with --help they are parsed and not executed."""
    for path, text in helps.items():
        for line in re.findall(r"^  (.*rdmawire.*)$", text.split("\nExamples:\n")[1], re.M):
            for part in re.split(r" \| | && ", line):
                if part.startswith("rdmawire"):
                    arguments = re.sub(r"^rdmawire(-agent)?", "", re.sub(r" -- .*", "", part))
                    program = AGENT if part.startswith("rdmawire-agent") else COMMAND
                    output_of("bash", "-c", f'"$0" {arguments} --help', program)


# reference page


def test_reference_page_is_current():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert page == output_of(COMMAND, "--reference") + output_of(AGENT, "--reference")


# man pages


def test_every_command_has_a_man_page(helps, share):
    pages = {path.name for path in (share / "man" / "man1").iterdir()}
    names = {"-".join(path if path[:1] == ("rdmawire-agent",) else ("rdmawire", *path)) for path in helps}
    assert pages == {f"{name}.1" for name in names}
    for page in pages:
        text = (share / "man" / "man1" / page).read_text()
        for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS"):
            assert f".SH {section}\n" in text, (page, section)


@pytest.mark.skipif(not shutil.which("groff"), reason="needs groff")
def test_groff_accepts_man_pages(share):
    for page in (share / "man" / "man1").iterdir():
        output_of("groff", "-man", "-ww", "-K", "utf8", "-T", "utf8", "-z", page)


@pytest.mark.skipif(not shutil.which("man"), reason="needs man")
def test_man_renders_pages_without_warnings(share):
    for page in (share / "man" / "man1").iterdir():
        text = output_of("man", "--warnings", "-E", "UTF-8", "-l", page,
                         env={**os.environ, "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"})  # fmt: skip
        assert "EXIT STATUS" in text


@pytest.mark.skipif(not shutil.which("mandoc"), reason="needs mandoc")
def test_mandoc_accepts_man_pages(share):
    for page in (share / "man" / "man1").iterdir():
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, ""), done.stdout


# completions


def environment():
    return {**os.environ, "PATH": f"{COMMAND.parent}:{os.environ['PATH']}", "TERM": "xterm", "LC_ALL": "C.UTF-8"}


def bash(share, words, program="rdmawire"):
    """Completions of the last word. Like bash, separates words at = and :."""
    script = """source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf '%s\\n' "${COMPREPLY[@]}" """
    file = share / "bash-completion" / "completions" / program
    return output_of("bash", "--norc", "-c", script, "bash", file, program, *words, env=environment()).split()


def fish(share, line, program="rdmawire"):
    file = share / "fish" / "vendor_completions.d" / f"{program}.fish"
    text = output_of("fish", "--no-config", "-c", f"source {file}; complete -C '{program} {line}'", env=environment())
    return [entry.split("\t")[0] for entry in text.splitlines()]


def typed(command, setup, text):
    """The text that an interactive shell shows after `text`, of which the last character is TAB."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(command[0], command, environment())
    shown = ""

    def wait_for(pattern, seconds):
        nonlocal shown
        end = time.monotonic() + seconds
        while not re.search(pattern, shown) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r|\x07", "", os.read(terminal, 65536).decode(errors="replace"))

    try:
        os.write(terminal, f"stty cols 200 rows 200; PS1=; {setup}; echo rea''dy\n".encode())
        wait_for(r"ready\n", seconds=30)
        assert "ready\n" in shown
        shown = ""
        os.write(terminal, text.encode())
        wait_for("(?!)", seconds=2)
        return shown
    finally:
        os.kill(process, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(process, 0)


def zsh(share, line, program="rdmawire"):
    """The text that zsh shows after TAB."""
    setup = f"fpath=({share}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D; unsetopt automenu; LISTMAX=1000"
    return typed(["zsh", "-f", "-i"], setup, f"{program} {line}\t")


def test_bash_completes_commands_options_and_values(share, tmp_path):
    assert "analyze" in bash(share, [""]) and "replay" in bash(share, [""])
    assert bash(share, ["ana"]) == ["analyze"]
    assert bash(share, ["lab", "re"]) == ["record"]
    assert bash(share, ["analyze", "--capture-p"]) == ["--capture-points"]
    assert bash(share, ["analyze", "--color", ""]) == ["auto", "always", "never"]
    assert bash(share, ["analyze", "--color", "=", "ne"]) == ["never"]
    assert bash(share, ["check", "--level", "sh"]) == ["shall", "should"]
    assert bash(share, ["certify", "--fault", "naks-every"]) == ["naks-every-packet"]
    assert bash(share, ["certify", "--only", "RSP-009"]) == ["RSP-009"]
    assert bash(share, ["certify", "--device", "lab", ":", "r"]) == ["rxe"]
    assert bash(share, ["certify", "--rate", ""]) == []
    (tmp_path / "a file.pcap").touch()
    shown = typed(["bash", "--norc", "-i"], f"source {share}/bash-completion/completions/rdmawire", f"rdmawire dissect {tmp_path}/a\t")
    assert f"rdmawire dissect {tmp_path}/a\\ file.pcap " in shown
    assert bash(share, ["--all"], "rdmawire-agent") == ["--allow-run"]


@pytest.mark.skipif(not shutil.which("fish"), reason="needs fish")
def test_fish_completes_commands_options_and_values(share):
    assert fish(share, "ana") == ["analyze"]
    assert fish(share, "lab re") == ["record"]
    assert fish(share, "analyze --capture-p") == ["--capture-points"]
    assert set(fish(share, "analyze --color ")) == {"auto", "always", "never"}
    assert fish(share, "check --level sho") == ["should"]
    assert fish(share, "certify --fault naks-every") == ["naks-every-packet"]
    assert fish(share, "explain RSP-009") == ["RSP-009"]
    assert fish(share, "--all", "rdmawire-agent") == ["--allow-run"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_completes_commands_options_and_values(share):
    shown = zsh(share, "")
    assert re.search(r"^analyze +-- Analyze RDMA captures", shown, re.M), shown
    assert "rdmawire lab record " in zsh(share, "lab rec")
    assert "--capture-points" in zsh(share, "analyze --capture-p")
    assert re.search(r"always +auto +never", zsh(share, "analyze --color=")), zsh(share, "analyze --color=")
    assert "--fault naks-every-packet" in zsh(share, "certify --fault naks-every")
    assert "--allow-run" in zsh(share, "--all", "rdmawire-agent")
