"""The modules of the package form no import cycle."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "rdmawire"


def module_name(path, root):
    """Return the dotted name of a module file."""
    parts = [root.name, *path.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(test):
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def import_statements(node):
    """Return all import statements below a node, except those that only type checkers execute."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child
        elif isinstance(child, ast.If) and is_type_checking(child.test):
            for other in child.orelse:
                yield from import_statements(ast.Module([other], []))
        else:
            yield from import_statements(child)


def imported_modules(path, name, known):
    """Return the modules of the package that a module imports, also in functions."""
    for statement in import_statements(ast.parse(path.read_text())):
        if isinstance(statement, ast.Import):
            candidates = [alias.name for alias in statement.names]
        else:
            base = statement.module or ""
            if statement.level:
                package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
                package = package[: len(package) - statement.level + 1]
                base = ".".join([*package, *([base] if base else [])])
            submodules = [f"{base}.{alias.name}" for alias in statement.names]
            candidates = submodules + ([base] if any(one not in known for one in submodules) else [])
        yield from (one for one in candidates if one in known and one != name)


def import_graph(root):
    """Return the imports of each module. The extension module is known by its stubs and has no imports."""
    paths = {module_name(path, root): path for path in root.rglob("*.py")}
    known = paths.keys() | {module_name(path, root) for path in root.rglob("*.pyi")}
    return {name: set(imported_modules(path, name, known)) for name, path in paths.items()}


def test_package_has_no_import_cycle():
    graph = import_graph(PACKAGE)
    assert {"rdmawire", "rdmawire.devices", "rdmawire.fuzz"} <= graph.keys()
    assert "rdmawire.needs" in graph["rdmawire.devices"]
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    ("source", "is_cycle"),
    [
        ("from package import b", True),
        ("from .b import name", True),
        ("import package.b", True),
        ("def late():\n    from package.b import name", True),
        ("try:\n    import package.b\nexcept ImportError:\n    pass", True),
        ("if TYPE_CHECKING:\n    from package.b import name", False),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from package.b import name", True),
        ("import other.b", False),
    ],
)
def test_cycles_are_found_in_all_kinds_of_imports(tmp_path, source, is_cycle):
    root = tmp_path / "package"
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "a.py").write_text(source)
    (root / "b.py").write_text("from package import a\n")
    sorter = graphlib.TopologicalSorter(import_graph(root))
    if is_cycle:
        with pytest.raises(graphlib.CycleError):
            sorter.prepare()
    else:
        sorter.prepare()


#: Modules of the standard library that take longer to import than the rest of the package.
SLOW = ["asyncio", "concurrent.futures", "difflib", "hashlib", "html", "logging", "random", "socket", "ssl", "subprocess", "tempfile"]


def test_import_of_the_package_loads_no_slow_modules():
    program = f"import sys\nbefore = set(sys.modules)\nimport rdmawire\nprint(*{{*{SLOW!r}}} & set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
