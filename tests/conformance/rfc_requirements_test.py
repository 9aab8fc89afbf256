"""The table of the RFCs' requirements (conformance/rules/rfc/requirements.toml): its rules, its page, and the texts of the RFCs.

The texts are in RDMAWIRE_SHARED/rfc or ../shared/rfc. Without them, one test is skipped.
"""

import importlib.machinery
import importlib.util
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "rfc-requirements"
TEXTS = Path(os.environ.get("RDMAWIRE_SHARED", ROOT.parent / "shared")) / "rfc"

loader = importlib.machinery.SourceFileLoader("rfc_requirements", str(SCRIPT))
requirements = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
loader.exec_module(requirements)

# A rule that cites RFC 5041, 4.3, and a rule of another transport.
KNOWN = {"DDP-009": ("ddp.msn", {"5041 4.3"}, "iWARP"), "RSP-009": ("rc.psn", set(), "RC")}
REASONS = {"local": "…"}


def problems(entry, *, phrase="MSN MUST be one", section="4.3", other=None):
    return requirements.problems(REASONS, other or {}, [("5041", section, phrase, entry)], KNOWN)


def test_rules_exist_and_cite_the_section_and_each_iwarp_rule_occurs():
    assert requirements.problems(*requirements.load(), requirements.rules()) == []


def test_page_is_current():
    done = subprocess.run([SCRIPT, "--check"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(not TEXTS.is_dir(), reason="needs the texts of the RFCs: RDMAWIRE_SHARED")
def test_each_keyword_of_the_rfcs_is_in_one_requirement():
    found, count = requirements.differences(requirements.load()[2], TEXTS)
    assert found == []
    assert count == 447


def test_a_correct_entry_has_no_problem():
    assert problems({"summary": "s", "rules": ["DDP-009"]}) == []
    assert problems({"summary": "s", "rules": ["DDP-009"], "cited": ["5041 4.3"]}, section="9") == []
    assert problems({"summary": "s", "reason": "local"}, other={"DDP-009": "…"}) == []


@pytest.mark.parametrize("entry, options, message", [
    ({"summary": "s", "rules": ["DDP-009"]}, {"section": "4.2"}, "DDP-009 cites 5041 4.3"),
    ({"summary": "s", "rules": ["DDP-009", "DDP-099"]}, {}, "there is no rule DDP-099"),
    ({"summary": "s", "rules": ["DDP-009"], "cited": ["5041 4.4"]}, {}, "no rule of it cites 5041 4.4"),
    ({"summary": "s", "rules": ["DDP-009"], "reason": "local"}, {}, "needs either rules or a reason"),
    ({"summary": "s"}, {"other": {"DDP-009": "…"}}, "needs either rules or a reason"),
    ({"summary": "s", "reason": "lokal"}, {"other": {"DDP-009": "…"}}, "unknown reason lokal"),
    ({"summary": "s", "reason": "local"}, {}, "DDP-009 is missing: add it to a requirement or to other_rules"),
    ({"summary": "s", "rules": ["DDP-009"]}, {"other": {"DDP-009": "…"}}, "DDP-009 is in other_rules and in a requirement"),
    ({"summary": "", "rules": ["DDP-009"]}, {}, "has no summary"),
    ({"summary": "s", "rules": ["DDP-009"], "ruls": []}, {}, "unknown member ruls"),
    ({"summary": "s", "rules": ["DDP-009"]}, {"phrase": "the MSN is one"}, "contains no MUST"),
    ({"summary": "s", "rules": ["DDP-009"]}, {"phrase": "MUST " + "word " * 11}, "has more than 11 words"),
])
def test_a_wrong_entry_is_reported(entry, options, message):
    found = problems(entry, **options)
    assert len(found) == 1 and message in found[0]


TEXT = """\
Table of Contents

   1.  Introduction ................... 2
   2.  Rules .......................... 3

1.  Introduction

   The key words "MUST", "MUST NOT" and "SHALL" in this document are to be interpreted as described in RFC 2119
   [RFC2119].

2.  Rules

   A sender MUST
{page}
   send one.  A sender SHALL NOT send two.

Appendix A.  More

A.1.  Receiver

   A receiver is REQUIRED to accept one.
"""
BREAK = "\n\nShah, et al.                Standards Track                     [Page 2]\n\f\nRFC 9999                    Title                  October 2007\n\n"


def differences(tmp_path, entries, text=TEXT.replace("{page}", BREAK)):
    (tmp_path / "rfc9999.txt").write_text(text)
    return requirements.differences([("9999", section, phrase, {}) for section, phrase in entries], tmp_path)


def test_a_requirement_continues_after_a_page_break(tmp_path):
    all_of_them = [("2", "A sender MUST send one"), ("2", "SHALL NOT send"), ("A.1", "is REQUIRED to")]
    assert differences(tmp_path, all_of_them) == ([], 3)


def test_missing_unknown_and_ambiguous_phrases_are_reported(tmp_path):
    found, _ = differences(tmp_path, [("2", "sender MUST send"), ("2", "MUST send one"), ("2", "MUST receive"), ("3", "MUST")])
    assert [line.split(":")[0] for line in found] == [
        'RFC 9999, 2 does not contain "MUST receive"', "RFC 9999 has no section 3", "RFC 9999, 2",
        "RFC 9999, 2 is not in the file", "RFC 9999, A.1 is not in the file"]
