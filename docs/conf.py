"""Sphinx configuration of the site: `make docs` builds it into build/site.

Pages are plain Markdown that reads well in the repository. This file adds what the site needs: navigation from the sections of
index.md, pages for the Markdown files at the repository's root, and links from code spans to the reference.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexer import RegexLexer
from pygments.lexers.special import TextLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # notebooks run commands

from surface import aliases  # noqa: E402

import burn  # noqa: E402

project = "burn"
author = "The burn-mlir developers"
copyright = author
release = version = burn.__version__

extensions = ["myst_nb", "sphinx_copybutton"]
exclude_patterns: list[str] = []
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "burn"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#b3400b", "color-brand-content": "#a03a0a"},
    "dark_css_variables": {"color-brand-primary": "#ff9a5c", "color-brand-content": "#ffa066"},
    "footer_icons": [],
}
pygments_style = "friendly"
pygments_dark_style = "monokai"
nitpicky = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_execution_in_temp = True

ROOT_PAGES = {
    "README.md": "index",
    "ARCHITECTURE.md": "project/architecture",
    "CONTRIBUTING.md": "project/contributing",
    "CHANGELOG.md": "project/changelog",
    "SECURITY.md": "project/security",
}
"""Markdown files of the repository's root, and the pages that show them."""

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#:\s]+)(#[^)]*)?\)")
ENTRY = re.compile(r"^- \[[^\]]*\]\(/([^)#:]+)\.(?:md|ipynb)\)", re.MULTILINE)
NAME = re.compile(r"(?:burn\.|nn\.|ops\.|optim\.|train\.|data\.|metrics\.)[A-Za-z_][\w.]*(?=$|\()")
PREFIXES = {"burn": "", "metrics": "burn.train."}
SECOND_NAMES = aliases()


def read(app: Sphinx, page: str, source: list[str]) -> None:
    """Sources as the site needs them; see the module."""
    shown = {page: file for file, page in ROOT_PAGES.items() if page != "index"}
    folder = ROOT if page in shown else (HERE / page).parent
    if page in shown:
        source[0] = (ROOT / shown[page]).read_text()
    if source[0].lstrip().startswith("{"):
        return  # a notebook
    source[0] = LINK.sub(lambda match: _link(match, folder, page), source[0])
    if page in ("index", "reference/index"):
        source[0] = _with_navigation(source[0], page)


def _link(match: re.Match[str], folder: Path, page: str) -> str:
    """A link as the site has it. Links to files that are not pages keep their text alone."""
    text, target, anchor = match[1], match[2], match[3] or ""
    path = (folder / target).resolve()
    if not path.is_relative_to(ROOT):
        return match[0]
    name = path.relative_to(ROOT).as_posix()
    if name in ROOT_PAGES:
        found = HERE / f"{ROOT_PAGES[name]}.md"
    elif path.is_relative_to(HERE) and path.suffix in (".md", ".ipynb"):
        found = path
    else:
        return text
    return f"[{text}](/{found.relative_to(HERE).as_posix()}{anchor})"


def _with_navigation(text: str, page: str) -> str:
    """A hidden table of contents behind each section that lists pages."""
    sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    done = []
    for section in sections:
        title = section.partition("\n")[0].removeprefix("## ") if section.startswith("## ") else ""
        entries = [f"/{name}" for name in ENTRY.findall(section) if name != "index"]
        caption = [f":caption: {title}"] if title and page == "index" else []
        toctree = ["", "```{toctree}", ":hidden:", *caption, "", *entries, "```", ""]
        done.append(section + "\n".join(toctree if entries else []))
    return "".join(done)


class LinkedNames(SphinxPostTransform):
    """Code spans such as `burn.load` and `nn.Linear(4, 2)` become links to the reference."""

    default_priority = 5

    def run(self, **kwargs: Any) -> None:
        python = self.env.get_domain("py")
        for span in list(self.document.findall(nodes.literal)):
            match = NAME.match(span.astext())
            if match is None or isinstance(span.parent, (nodes.reference, pending_xref)):
                continue
            first = match[0].partition(".")[0]
            name = PREFIXES.get(first, "burn.") + match[0]
            name = SECOND_NAMES.get(name, name)
            known = python.objects.get(name)  # type: ignore[attr-defined]
            if known is None:
                continue
            uri = self.app.builder.get_relative_uri(self.env.docname, known.docname)
            link = nodes.reference("", "", internal=True, refuri=f"{uri}#{known.node_id}", reftitle=name)
            span.replace_self(link)
            link += span


def missing(app: Sphinx, env: Any, node: pending_xref, content: nodes.Node) -> nodes.Node | None:
    """Type annotations: names of burn's classes without their module, and those of other libraries, which stay text."""
    if node.get("refdomain") != "py" or node.get("reftype") not in ("class", "obj", "exc"):
        return None
    python = env.get_domain("py")
    target = str(node.get("reftarget", ""))
    found = [name for name in python.objects if name == target or name.endswith(f".{target}")]
    classes = [name for name in found if python.objects[name].objtype in ("class", "exception")]
    if len(classes) == 1:
        known = python.objects[classes[0]]
        uri = app.builder.get_relative_uri(node["refdoc"], known.docname)
        link = nodes.reference("", "", internal=True, refuri=f"{uri}#{known.node_id}", reftitle=classes[0])
        link += content
        return link
    return None if target.startswith("burn.") or node.get("refexplicit") else content


class MlirLexer(RegexLexer):
    """MLIR's text form, as burn-opt prints it."""

    name = "MLIR"
    aliases = ["mlir"]  # noqa: RUF012
    tokens = {  # noqa: RUF012
        "root": [
            (r"//[^\n]*", Comment.Single),
            (r'"(?:[^"\\]|\\.)*"', String),
            (r"[%^@#!][\w.$-]+", Name.Variable),
            (r"\b(?:func\.func|func\.return|module|dense|array|true|false)\b", Keyword),
            (r"\b(?:tensor|vector|memref|index|[iuf]\d+|si\d+|ui\d+|bf16)\b", Keyword.Type),
            (r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", Number),
            (r"[A-Za-z_][\w.$]*", Name),
            (r"[=:(){}<>\[\],*+/?|x-]", Operator),
            (r"\s+", Text),
            (r".", Text),
        ]
    }


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", read)
    app.connect("missing-reference", missing)
    app.add_post_transform(LinkedNames)
    app.add_lexer("mlir", MlirLexer)
    app.add_lexer("stages", TextLexer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
