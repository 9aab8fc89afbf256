"""Runs every example of docs/python*.md, docs/reference/scapy.md and README.md.

Blocks marked ```pycon are interpreter sessions whose output is compared, and blocks marked ```python are programs.
The blocks of a section (## …) share their variables. Each section starts without imports, in a directory that
contains captures/.
"""

import doctest
import re
import traceback
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def sections():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("python*.md")), ROOT / "docs/reference/scapy.md"]:
        text = path.read_text()
        starts = [0, *(match.start() for match in re.finditer(r"^## ", text, re.M)), len(text)]
        for start, end in zip(starts, starts[1:], strict=False):
            blocks = [
                (language, code, text.count("\n", 0, start + match.start()) + 2)
                for match in BLOCK.finditer(text[start:end])
                for language, code in [match.groups()]
                if language in ("python", "pycon")
            ]
            if blocks:
                title = text[start:end].lstrip("#").strip().splitlines()[0]
                yield pytest.param(path, blocks, id=f"{path.name}: {title}")


@pytest.mark.parametrize(("path", "blocks"), sections())
def test_examples_of_the_pages_run(path, blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "captures").symlink_to(ROOT / "captures")
    names = {"__name__": "__main__"}
    for language, code, line in blocks:
        if language == "python":
            # Error messages contain the line numbers of the page.
            try:
                exec(compile("\n" * (line - 1) + code, str(path), "exec"), names)
            except Exception:
                pytest.fail(f"{path}:{line}\n{traceback.format_exc()}")
        else:
            test = doctest.DocTestParser().get_doctest(code, names, path.name, str(path), line - 1)
            output = []
            flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
            runner = doctest.DocTestRunner(optionflags=flags)
            runner.run(test, out=output.append, clear_globs=False)
            names.update(test.globs)
            assert runner.failures == 0, "".join(output)
