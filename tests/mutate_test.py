"""scripts/mutate: the mutants of a line, and runs in a small project."""

import json
import os
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest
from scripts_test import load

ROOT = Path(__file__).resolve().parent.parent
mutate = load("mutate")


def changed(line, kind=None):
    """The changed lines of a statement in a function."""
    source = f"int f() {{\n  {line}\n}}\n"
    return [mutant.after for mutant in mutate.mutants_of("a.cpp", source) if kind in (None, mutant.kind)]


@pytest.mark.parametrize("line, expected", [
    ("if (a < b) f();", ["if (!(a < b)) f();", "if (a <= b) f();", "if (a < b) ;"]),
    ("if (a == b) return;", ["if (a != b) return;", "if (a == b) ;"]),
    ("if (!a) return 7;", ["if (a) return 7;", "if (!a) ;", "if (!a) return 8;", "if (!a) return 6;"]),
    ("if (a && b) continue;", ["if (!(a && b)) continue;", "if (a || b) continue;", "if (a && b) ;"]),
    ("if (const auto* p = g()) h(p);", ["if (const auto* p = g(); !p) h(p);", "if (const auto* p = g()) ;"]),
    ("if (x = g(); x) h();", ["if (x = g(); !(x)) h();", "if (x = g(); x) ;"]),
    ("x = a ? b : c;", ["x = !(a) ? b : c;", ";"]),
    ("return a || b ? c : d;", ["return !(a || b) ? c : d;", "return a && b ? c : d;"]),
    ("x.y[z].w += 2;", [";", "x.y[z].w -= 2;", "x.y[z].w += 3;", "x.y[z].w += 1;"]),
    ("++count;", [";", "--count;"]),
    ("const int n = 0x10;", ["const int n = 0x11;", "const int n = 0xf;"]),
    ("bool done = true;", ["bool done = false;"]),
    ("constexpr double fell = 0.8;", ["constexpr double fell = 1.0;"]),
    ("std::uint64_t n = 1'000ULL;", ["std::uint64_t n = 1001ULL;", "std::uint64_t n = 999ULL;"]),
    ("std::vector<std::vector<int>> v;", []),
    ("auto&& r = *p; T& s(r);", []),
    ("return std::min(a, b);", ["return std::max(a, b);"]),
    ("for (int i = 0; i < n; ++i) g(i);", ["for (int i = 1; i < n; ++i) g(i);", "for (int i = 0; i <= n; ++i) g(i);",
                                           "for (int i = 0; i < n; ++i) ;"]),
    ("static_assert(sizeof(T) == 4);", []),
    ('g("1 < 2", \'3\');  // 4 < 5', ["; // 4 < 5"]),
    ("#define A 1", []),
])
def test_mutants_of_a_line(line, expected):
    assert sorted(changed(line)) == sorted(expected)


def test_condition_of_several_lines_is_negated():
    assert changed("if (a &&\n      b)\n    g();", "negated condition") == ["if (!(a && b))"]


def test_statements_in_a_lambda_are_deleted():
    assert changed("h([&](int a) {\n    sum += a;\n  });", "deleted statement") == [";"]


def test_draw_depends_on_the_seed_and_not_on_other_lines():
    source = "void f() {\n" + "".join(f"  a{i} = {i};\n" for i in range(50)) + "}\n"
    first = mutate.drawn(mutate.mutants_of("a.cpp", source), 20, 1)
    assert len(first) == 20
    assert first == mutate.drawn(mutate.mutants_of("a.cpp", source), 20, 1)
    assert first != mutate.drawn(mutate.mutants_of("a.cpp", source), 20, 2)
    smaller = mutate.drawn(mutate.mutants_of("a.cpp", source), 5, 1)
    assert len(smaller) == 5 and set(smaller) <= set(first)
    moved = mutate.drawn(mutate.mutants_of("a.cpp", "// a comment\n" + source), 20, 1)
    assert [mutant.id for mutant in moved] == [mutant.id for mutant in first]


def test_equal_changes_in_different_places_are_different_mutants():
    mutants = mutate.mutants_of("a.cpp", "void f() {\n  g();\n  g();\n}\n")
    assert len({mutant.id for mutant in mutants}) == len(mutants) == 2


def test_slow_tests_of_a_report():
    suites = [{"name": "A/B", "testsuite": [{"name": "c/1", "time": "0.5s"}, {"name": "d", "time": "0s"}]},
              {"name": "E", "testsuite": [{"name": "f", "time": "2.25s"}]}]
    assert mutate.slow_tests({"testsuites": suites}) == {"A/B.c/1": 0.5, "E.f": 2.25}


def test_score_omits_mutants_that_did_not_compile_or_are_equivalent():
    assert mutate.score(["killed", "timed out", "survived", "killed", "did not compile", "equivalent"]) == 75
    assert mutate.score([]) == 100


# ---- A project with one source and one test

SOURCE = """\
int clamp(int x) {
  if (x > 9) return 9;
  return x;
}
int count(int n) {
  int found = 0;
  while (found < n) ++found;
  return found;
}
"""
TEST = """\
int clamp(int x);
int count(int n);
int main() { return clamp(3) != 3 || clamp(20) != 9 || count(2) != 2 || count(-1) != 0; }
"""
MORE = TEST.replace("clamp(3) != 3", "clamp(3) != 3 || clamp(10) != 9")
NINJA = """\
rule cxx
  command = c++ -Werror -Wall -o $out -c $in
rule ar
  command = rm -f $out && ar qc $out $in
rule link
  command = : && c++ -o $out $in && :
build CMakeFiles/rdmawire_small.dir/small.cpp.o: cxx {root}/part/small.cpp
build CMakeFiles/small_test.dir/small_test.cpp.o: cxx {root}/part/small_test.cpp
build libsmall.a: ar CMakeFiles/rdmawire_small.dir/small.cpp.o
build bin/small_test: link CMakeFiles/small_test.dir/small_test.cpp.o libsmall.a
build small_test: phony bin/small_test
"""


class Project:
    def __init__(self, root):
        self.root, self.build = root, root / "build" / "dev"
        self.build.mkdir(parents=True)
        (root / "part").mkdir()
        (root / "scripts").mkdir()
        (root / "part" / "small.cpp").write_text(SOURCE)
        (root / "part" / "small_test.cpp").write_text(TEST)
        (self.build / "build.ninja").write_text(NINJA.format(root=root))
        (self.build / "compile_commands.json").write_text(json.dumps([{
            "directory": str(self.build), "file": str(root / "part" / "small.cpp"),
            "command": f"c++ -Werror -Wall -o CMakeFiles/rdmawire_small.dir/small.cpp.o -c {root}/part/small.cpp"}]))

    def command(self, *options):
        folder = [] if any(option.startswith("part/") for option in options) else ["part"]
        return [str(ROOT / "scripts" / "mutate"), *folder, "--root", str(self.root), "--seed", "5", "--timeout", "0.5",
                *options]

    def run(self, *options):
        return subprocess.run(self.command(*options), capture_output=True, text=True, timeout=120)

    def results(self):
        return {(row["before"], row["after"]): row for row in
                json.loads((self.root / "build" / "mutants" / "results.json").read_text())["mutants"]}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_survivors_are_reported_and_run_again_after_a_new_test(project):
    done = project.run()
    assert done.returncode == 1, done.stdout + done.stderr
    results = {key: row["result"] for key, row in project.results().items()}
    condition = "if (x > 9) return 9;"
    assert results[(condition, "if (!(x > 9)) return 9;")] == "killed"
    assert results[(condition, "if (x > 9) return 8;")] == "killed"
    assert results[(condition, "if (x >= 9) return 9;")] == "survived"
    assert results[(condition, "if (x > 10) return 9;")] == "survived"
    assert results[("while (found < n) ++found;", "while (found < n) ;")] == "timed out"
    assert "-  if (x > 9) return 9;\n+  if (x > 10) return 9;" in done.stdout
    assert (project.root / "part" / "small.cpp").read_text() == SOURCE
    assert [path.name for path in (project.root / "build" / "mutants").iterdir()] == ["results.json"]

    survivors = sum(result == "survived" for result in results.values())
    (project.root / "part" / "small_test.cpp").write_text(MORE)
    (project.root / "scripts" / "mutate.toml").write_text(textwrap.dedent("""\
        [[equivalent]]
        file = "part/small.cpp"
        line = "if (x > 9) return 9;"
        mutant = "if (x >= 9) return 9;"
        reason = "9 is returned for 9 in both cases"
        """))
    done = project.run()
    assert f"{len(results) - survivors} of {len(results) - 1} mutants have a result" in done.stdout
    again = project.results()
    assert again[(condition, "if (x > 10) return 9;")]["result"] == "killed"
    assert again[(condition, "if (x > 10) return 9;")]["first"] == "survived"
    assert again[(condition, "if (x >= 9) return 9;")]["result"] == "equivalent"
    row = next(line for line in done.stdout.splitlines() if line.startswith("part/small.cpp "))
    assert (float(row.split()[-4]) < float(row.split()[-2])), row


def test_mutant_without_effect_on_the_code_is_equivalent(project):
    (project.root / "part" / "small.cpp").write_text(SOURCE + "#if 0\nint unused() { return 7; }\n#endif\n")
    project.run("part/small.cpp:11-13")
    assert project.results()[("int unused() { return 7; }", "int unused() { return 8; }")]["result"] == "equivalent"


def test_mutant_that_does_not_compile_is_not_counted(project):
    source = "constexpr int square(int x) { return x * x; }\nconst int table[square(2)] = {1, 2, 3, 4};\n"
    (project.root / "part" / "small.cpp").write_text(SOURCE + source)
    project.run("--jobs", "2")
    results = project.results()
    assert results[("const int table[square(2)] = {1, 2, 3, 4};", "const int table[square(1)] = {1, 2, 3, 4};")][
        "result"] == "did not compile"


def test_unknown_entry_of_the_list_of_equivalents_is_an_error(project):
    (project.root / "scripts" / "mutate.toml").write_text(
        '[[equivalent]]\nfile = "part/small.cpp"\nline = "x"\nmutant = "y"\nreason = "z"\n')
    done = project.run("--list")
    assert done.returncode == 2
    assert "part/small.cpp has no mutant 'x'" in done.stderr


def test_lines_of_a_file_are_selected(project):
    done = project.run("part/small.cpp:1-2", "part/small.cpp:8", "--list")
    assert {line.split()[0] for line in done.stdout.splitlines() if line.startswith("part/")} == {"part/small.cpp:2"}
    done = project.run("part/small.cpp:7", "--list")
    assert done.stdout.startswith("4 of 4 mutants")


def test_source_that_does_not_compile_in_a_copy_is_an_error(project):
    commands = (project.build / "compile_commands.json").read_text()
    (project.build / "compile_commands.json").write_text(commands.replace("-Wall", "-Wall -include none.hpp"))
    done = project.run()
    assert done.returncode != 0
    assert "part/small.cpp does not compile without a mutant" in done.stderr


def test_failing_test_without_a_mutant_is_an_error(project):
    (project.root / "part" / "small_test.cpp").write_text("int main() { return 1; }\n")
    done = project.run()
    assert "small_test fails without a mutant" in done.stderr
    assert not (project.root / "build" / "mutants" / "results.json").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_is_continued(project, number):
    process = subprocess.Popen(project.command("--jobs", "1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    done = 0
    for line in process.stdout:
        done += line.lstrip().startswith(("1/", "2/"))
        if done == 2:
            os.kill(process.pid, number)
            break
    process.communicate(timeout=60)
    assert process.returncode in (130, 143)
    assert (project.root / "part" / "small.cpp").read_text() == SOURCE
    assert not list((project.root / "build" / "mutants").glob("work-*"))
    finished = len(project.results())
    assert finished >= 2
    again = project.run()
    assert f"{finished} of " in again.stdout.splitlines()[2]


@pytest.mark.parametrize("wrong, message", [(["--jobs", "0"], "--jobs"), (["--number", "-1"], "--number"),
                                            (["part/none.cpp"], "expected a .cpp file")])
def test_wrong_options_are_rejected(project, wrong, message):
    done = project.run(*wrong)
    assert done.returncode == 2
    assert message in done.stderr


def test_list_of_equivalent_mutants_is_current():
    folders = sorted({os.path.dirname(entry[0]) for entry in mutate.load_equivalents(ROOT / "scripts" / "mutate.toml")})
    if not folders:
        return
    done = subprocess.run([ROOT / "scripts" / "mutate", *folders, "--list", "--number", "1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
