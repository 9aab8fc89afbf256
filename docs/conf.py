"""Sphinx configuration of the documentation site, which scripts/site builds.

The source directory is the root of the repository: relative links work on the site and in the repository. A link to
another kind of file, such as a schema, leads to a copy of that file.
"""

import enum
import os
import re
from pathlib import Path

from pygments.lexers.special import TextLexer

ROOT = Path(__file__).resolve().parent.parent

project = "rdmawire"
copyright = "the rdmawire authors"
version = release = re.search(r"project\(rdmawire VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]

extensions = ["myst_parser", "autoapi.extension"]
root_doc = "docs/index"
include_patterns = ["docs/**", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "captures/samples/README.md"]
exclude_patterns = ["build", ".*", "embargo"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = f"rdmawire {release}"
html_copy_source = False
html_show_search_summary = False  # the browser cannot read other pages from file://
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["../build/site-extra"]  # scripts/site writes the C++ reference there
html_theme_options = {"navigation_with_keys": True}

# The Python package, read from sources and stubs: the build does not import it.
autoapi_dirs = ["pysdk/rdmawire"]
autoapi_root = "docs/reference/python"
autoapi_file_patterns = ["*.pyi", "*.py"]
autoapi_add_toctree_entry = False
autoapi_options = ["members", "undoc-members", "show-inheritance", "show-module-summary", "imported-members"]
autoapi_member_order = "groupwise"
toc_object_entries = False  # the tables at the top of each page list the members of the module
# The stub of the native module refers to classes of the package, which imports the module. Sphinx: in annotations, `type` is the
# built-in class, and Sphinx also finds the fields with this name.
suppress_warnings = ["autoapi.python_import_resolution", "ref.python"]

# These modules import the other modules of the package.
PYTHON_MODULES = {"rdmawire"} | {
    f"rdmawire.{name}"
    for name in ("conformance", "distributed", "fuzz", "iwarp", "plots", "pytest_plugin", "scapy", "strategies")
}


# Docstrings of Python's own classes, which subclasses inherit.
INHERITED = {base.__doc__.strip() for base in (Exception, enum.IntEnum) if base.__doc__}


def skip_member(app, what, name, obj, skip, options):
    """Keeps the public modules, and omits docstrings in INHERITED."""
    if obj.docstring.strip() in INHERITED:
        obj.docstring = ""
    if what in ("module", "package"):
        return name not in PYTHON_MODULES
    return None


def add_navigation(app, name, source):
    """Add the links of the index page to the navigation: one group for each section."""
    if name != root_doc:
        return
    sections = source[0].split("\n## ")[1:]
    for section in sections:
        links = re.findall(r"^- \[([^\]]*)\]\(([^)]+)\.md\)", section, re.M)
        pages = [f"{title} <{os.path.normpath(f'/docs/{link}')}>" for title, link in links]
        title = section.splitlines()[0]
        source[0] += "\n\n" + "\n".join(["```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def setup(app):
    for name in ("filter", "error"):  # languages of the code blocks that the tests of the filters read
        app.add_lexer(name, TextLexer)
    app.connect("autoapi-skip-member", skip_member)
    app.connect("source-read", add_navigation)
