"""README.md shows what the command prints: every console block is run again and compared; its C++ compiles.

RDMAWIRE_README=write rewrites the console blocks instead.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BIN = ROOT / "build" / os.environ.get("RDMAWIRE_PRESET", "dev") / "bin"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)


def output_of(command):
    """What a person sees who types `command` in the repository: both streams, no colors."""
    result = subprocess.run(["bash", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=60, check=False,
                            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1",
                                 "COLUMNS": "120"})
    return "\n".join(line.rstrip() for line in result.stdout.splitlines())


def block_again(block):
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{(output_of(command) + chr(10)).lstrip(chr(10))}" for command in commands)


@pytest.mark.skipif(not (BIN / "rdmawire").exists(), reason=f"needs the command, built in {BIN}")
def test_readme_shows_what_the_command_prints():
    text = README.read_text()
    assert BLOCK.findall(text), "README.md has no console block"
    again = BLOCK.sub(lambda match: f"```console\n{block_again(match[1])}```", text)
    if os.environ.get("RDMAWIRE_README") == "write":
        README.write_text(again)
        return
    assert again == text


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_readme_cpp_compiles(tmp_path):
    blocks = re.findall(r"^```cpp\n(.*?)^```$", README.read_text(), re.M | re.S)
    assert blocks, "README.md has no C++"
    for block in blocks:
        lines = block.splitlines()
        source = tmp_path / "readme.cpp"
        source.write_text("\n".join([*(line for line in lines if line.startswith("#include")),
                                     "void example(rdmawire::Bytes bytes) {",
                                     *(line for line in lines if not line.startswith("#include")), "}", ""]))
        result = subprocess.run(["g++", "-std=c++20", "-fsyntax-only", f"-I{ROOT}", source], text=True,
                                capture_output=True, check=False)
        assert result.returncode == 0, result.stderr
