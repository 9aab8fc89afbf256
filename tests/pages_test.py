"""README.md and the pages in docs/ show the output of the program: every console block is run and compared.

A block marked `console` runs in the root of the repository. A block marked `console lab` boots virtual machines: it runs if
RDMAWIRE_LAB is set. RDMAWIRE_PAGES=write rewrites the blocks instead. The C++ of README.md must compile. The keys and columns of
docs/reference/analyze-report.md are compared with the schema and the files.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BIN = ROOT / "build" / os.environ.get("RDMAWIRE_PRESET", "dev") / "bin"
BLOCK = re.compile(r"^```console( lab)?\n(.*?)^```$", re.M | re.S)
DURATION = re.compile(r"\bin [\d.]+ s\b")  # duration of a run, which differs each time
PAGES = [README, *(page for page in sorted((ROOT / "docs").rglob("*.md")) if BLOCK.search(page.read_text()))]


def output_of(command):
    """Return the output of `command` in a terminal in the repository: both streams, no colors."""
    result = subprocess.run(["bash", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=300, check=False,
                            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1",
                                 "COLUMNS": "120", "PYTHONPATH": str(BIN.parent / "python")})
    return "\n".join(line.rstrip() for line in result.stdout.splitlines())


def run_block(match):
    """Return the block with the present output of its commands."""
    lab, block = match.groups()
    if lab and not os.environ.get("RDMAWIRE_LAB"):
        return match[0]
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    text = "".join(f"$ {command}\n{(output_of(command) + chr(10)).lstrip(chr(10))}" for command in commands)
    if DURATION.sub("", text) == DURATION.sub("", block):
        return match[0]
    return f"```console{lab or ''}\n{text}```"


@pytest.mark.skipif(not (BIN / "rdmawire").exists(), reason=f"requires the rdmawire command in {BIN}")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_console_blocks_equal_the_output(page):
    text = page.read_text()
    assert BLOCK.search(text), f"{page} has no console block"
    current = BLOCK.sub(run_block, text)
    if os.environ.get("RDMAWIRE_PAGES") == "write":
        page.write_text(current)
        return
    assert current == text


REPORT_PAGE = ROOT / "docs" / "reference" / "analyze-report.md"
# Words in the JSON blocks that are not keys, in addition to texts in parentheses and quotes.
NO_KEYS = set("above and columns direction each native of one per rnr roce_v2 row s shortest tables the with".split())


def without_remarks(text):
    """Return the text without quoted texts and (nested) parentheses."""
    text = re.sub(r'"[^"]*"', "", text)
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text


def keys_of(schema):
    """Yield the names of all properties of a JSON schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from keys_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from keys_of(value)


def test_keys_of_the_report_page_are_those_of_the_schema():
    schema = json.loads((REPORT_PAGE.parent / "schemas" / "analyze.schema.json").read_text())
    sections = REPORT_PAGE.read_text().split("\n## HTML page\n")[0]
    blocks = re.findall(r"^```\n(.*?)^```$", sections, re.M | re.S)
    assert len(blocks) == 2, "one block for a report, one for capture points"
    documented = set(re.findall(r"\b[a-z][a-z0-9_]*\b", without_remarks("".join(blocks))))
    assert documented - set(keys_of(schema)) == NO_KEYS
    assert set(schema["properties"]) - {"capture_points"} <= documented


@pytest.mark.skipif(not (BIN / "rdmawire").exists(), reason=f"requires the rdmawire command in {BIN}")
def test_columns_of_the_report_page_are_those_of_the_files(tmp_path):
    subprocess.run([BIN / "rdmawire", "analyze", ROOT / "captures" / "samples" / "rping.pcap", "--csv", tmp_path,
                    "--csv-packets"], check=True, stdout=subprocess.DEVNULL)
    rows = re.findall(r"^\| `(\w+\.csv)` \| (.*) \|$", REPORT_PAGE.read_text(), re.M)
    assert {file for file, _ in rows} == {"messages.csv", "packets.csv"}
    for file, columns in rows:
        documented = [column.strip() for column in without_remarks(columns).split(",")]
        assert documented == (tmp_path / file).read_text().splitlines()[0].split(",")
    assert "merged_from" in (tmp_path / "connections.csv").read_text().splitlines()[0].split(",")


@pytest.mark.skipif(not shutil.which("g++"), reason="requires g++")
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
