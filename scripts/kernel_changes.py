"""Changes of the source of Linux's rxe or siw for scripts/kernel-mutants: mutants, and patches that are undone."""

import difflib
import hashlib
import importlib.machinery
import importlib.util
import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "drivers/infiniband/sw"


def load_script(name):
    """Import a script of this directory as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), str(Path(__file__).resolve().parent / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


mutate = load_script("mutate")

DEBUG = re.compile(r"(?:pr|dev|netdev|ibdev|net|rxe|siw)_(?:dbg|debug|info|warn|err|notice|alert)\w*$|printk|trace_\w+$"
                   r"|(?:BUILD_)?BUG_ON\w*$|BUG$|WARN\w*$|lockdep_\w+$|might_sleep$|MODULE_\w+$")
BOUNDARIES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
EQUALITIES = {"==": "!=", "!=": "=="}
# An error code is replaced by the next one of its group in the same file.
ERROR_GROUPS = [re.compile(pattern) for pattern in (
    r"E[A-Z0-9]{2,}$", r"IB_WC_\w+_ERR$", r"RESPST_ERR_\w+$", r"AETH_(?:RNR_)?NAK\w*$", r"(?:RDMAP|DDP|LLP|MPA)_ECODE_\w+$",
    r"SIW_WC_\w+_ERR$", r"RDMAP_U?N?TAGGED_\w+$")]


class KernelGenerator(mutate.Generator):
    """The mutants of a C source of the kernel."""

    def __init__(self, path, source):
        super().__init__(path, source)
        self.tokens = self.without_labels()
        self.pairs = mutate.pairs_of(self.tokens)
        self.skipped = self.debug_statements()

    def without_labels(self):
        """Return the tokens without labels of goto, so that the statement after a label starts a statement."""
        kept, i = [], 0
        while i < len(self.tokens):
            token = self.tokens[i]
            following = self.tokens[i + 1].text if i + 1 < len(self.tokens) else ""
            if (token.kind == "word" and token.text != "default" and following == ":"
                    and (not kept or kept[-1].text in (";", "{", "}"))):
                i += 2
                continue
            kept.append(token)
            i += 1
        return kept

    def debug_statements(self):
        """Return the indices of the tokens of log messages and assertions."""
        skipped = set()
        for i, token in enumerate(self.tokens):
            if token.kind == "word" and DEBUG.match(token.text) and i + 1 in self.pairs:
                skipped.update(range(i, self.pairs[i + 1] + 1))
        return skipped

    def run(self):
        groups = self.error_groups()
        for i, token in enumerate(self.tokens):
            if i in self.skipped:
                continue
            if token.kind == "number":
                for text in mutate.changed_numbers(token.text):
                    self.replace("constant", token, text)
            elif token.kind == "word" and token.text in ("if", "while"):
                self.condition(i)
            elif token.kind == "word":
                self.error_code(i, groups)
            elif token.text in BOUNDARIES and mutate.spaced(self.source, token):
                self.replace("boundary", token, BOUNDARIES[token.text])
            elif token.text in EQUALITIES:
                self.replace("negated condition", token, EQUALITIES[token.text])
            elif token.text == "!":
                self.replace("negated condition", token, "")
            elif token.text == "?":
                self.choice(i)
        self.statements(self.skipped)
        return sorted(self.mutants, key=lambda mutant: (mutant.start, mutant.end, mutant.text))

    def condition(self, i):
        opening = i + 1
        if opening not in self.pairs or self.tokens[opening].text != "(":
            return
        first, last = opening + 1, self.pairs[opening] - 1
        if first > last or first in self.skipped or self.only_logs(last + 2):
            return
        start, end = self.tokens[first].start, self.tokens[last].end
        texts = [self.tokens[j].text for j in self.top_level(first, last)]
        joined = {"&&", "||", "?"} & set(texts)
        # The mutants of the operator are the same.
        if joined or not (texts[0] == "!" or EQUALITIES.keys() & set(texts)):
            self.add("negated condition", start, end, f"!({self.source[start:end]})")
        for constant in ("0", "1"):
            loop = self.tokens[i].text == "while"
            if (loop and constant == "1") or self.source[start:end] == constant:
                continue  # an infinite loop
            self.add("constant condition", start, end, constant)

    def only_logs(self, i):
        """Return whether the statement from the token `i` only writes log messages."""
        last = self.pairs.get(i, i) if i < len(self.tokens) and self.tokens[i].text == "{" else None
        if last is None:
            last = next((j for j in range(i, len(self.tokens)) if self.tokens[j].text == ";"), i)
        inner = [j for j in range(i, last + 1) if self.tokens[j].text not in ("{", "}", ";")]
        alternative = last + 1 < len(self.tokens) and self.tokens[last + 1].text == "else"
        return bool(inner) and not alternative and all(j in self.skipped for j in inner)

    def error_groups(self):
        """Return the next code of its group in this file for each error code."""
        following = {}
        words = {token.text for i, token in enumerate(self.tokens) if token.kind == "word" and i not in self.skipped}
        for group in ERROR_GROUPS:
            codes = sorted(word for word in words if group.match(word))
            for code, other in zip(codes, codes[1:] + codes[:1]):
                if code != other:
                    following.setdefault(code, other)
        return following

    def error_code(self, i, following):
        token, before = self.tokens[i], self.tokens[i - 1].text if i else ""
        # Neither a label of a switch nor an index of a table.
        if token.text not in following or before in ("case", "[") or (ERROR_GROUPS[0].match(token.text) and before != "-"):
            return
        self.replace("error code", token, following[token.text])

    def deletable(self, first, last, after_control):
        if self.tokens[first].text == "goto":
            return True
        return super().deletable(first, last, after_control)


def mutants_of(path, source):
    return KernelGenerator(path, source).run()


@dataclass
class Change:
    """A mutant, or a patch that is undone."""
    id: str
    file: str
    line: int
    kind: str
    diff: str
    changed: dict = field(default_factory=dict)  # text of each changed file
    error: str = ""  # why a patch does not apply


def change_of(mutant, source):
    return Change(mutant.id, mutant.path, mutant.line, mutant.kind, mutate.difference(source, mutant),
                  {mutant.path: mutant.apply(source)})


def sections_of(patch):
    """Return the parts of a patch by the path of the changed file."""
    found, path, lines = {}, None, []
    for line in patch.splitlines(keepends=True):
        if line.startswith("--- "):
            path, lines = None, [line]
        elif line.startswith("+++ ") and lines and lines[-1].startswith("--- "):
            name = line[4:].split("\t")[0].strip()
            path = (name if name != "/dev/null" else lines[-1][4:].split("\t")[0].strip()).partition("/")[2]
            found[path] = [*lines, line]
        elif path and re.match(r"@@ |[ +\-\\]|\n", line) and not re.match(r"-- \n", line):
            found[path].append(line)
        else:
            path = None
    return {path: "".join(lines) for path, lines in found.items()}


def reversal(path, device, sources):
    """Return the change that undoes a patch in the sources of the device."""
    text = path.read_text(errors="replace")
    prefix = f"{FOLDER}/{device}/"
    parts = {name.removeprefix(prefix): part for name, part in sections_of(text).items() if name.startswith(prefix)}
    made = Change(hashlib.sha256(text.encode()).hexdigest()[:16], path.name, 0, "undone patch", "")
    if not parts:
        made.error = f"changes no file of {FOLDER}/{device}"
        return made
    with tempfile.TemporaryDirectory() as folder:
        for name, part in parts.items():
            copy = Path(folder, Path(name).name)
            copy.write_text(sources.get(name, ""))
            done = subprocess.run(["patch", "--reverse", "--batch", "--forward", "--fuzz=2", "--no-backup-if-mismatch",
                                   "--reject-file=-", str(copy)], input=part, text=True, cwd=folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            if name not in sources or done.returncode:
                made.error = f"{name}: " + ("no such file" if name not in sources else first_error(done.stdout, "FAILED"))
                return made
            made.changed[name] = copy.read_text()
            lines = difflib.unified_diff(sources[name].splitlines(), made.changed[name].splitlines(), name, name, "", "", 0, "")
            made.diff += "\n".join(lines) + "\n"
    return made


def first_error(output, word):
    lines = [line for line in output.splitlines() if word in line] or output.splitlines()[-1:]
    return lines[0].strip()[:300] if lines else ""
