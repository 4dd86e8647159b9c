"""What Sphinx does not have: pages of source files, and diagrams without a script."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx.util.docutils import SphinxDirective

from tools.website.links import SOURCE_SCHEME
from tools.website.navigation import Navigation, docname_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE_FOLDER: Final = "source"
NAME_LENGTH_MAX: Final = 20
_GROUP = re.compile(r"^\s*subgraph (\w+) \[([^\]]+)\]")
_NODE = re.compile(r'^\s*(\w+)\["([^"]+)"\]')
_ARROWS = re.compile(r"^\s*\w+(?: --> \w+)+\s*$")


# -- source files


def page_of(path: str) -> str:
    """The name on the site of the page of a file or folder of the repository."""
    return f"{SOURCE_FOLDER}/{path}" if (ROOT / path).is_file() else f"{SOURCE_FOLDER}/{path}/index"


class SourcePages:
    """Pages of the files and folders of the repository that other pages link to."""

    def __init__(self) -> None:
        self._linked: set[str] = set()

    def link(self, app: Sphinx, doctree: nodes.document, docname: str) -> None:
        """Turn links to `source:PATH` into links to the page of that file or folder."""
        for reference in doctree.findall(nodes.reference):
            target = reference.get("refuri", "")
            if target.startswith(SOURCE_SCHEME):
                path = target.removeprefix(SOURCE_SCHEME)
                self._linked.add(path)
                reference["refuri"] = app.builder.get_relative_uri(docname, page_of(path))
                reference["internal"] = True

    def pages(self, app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
        """The name, the values and the template of each page: a file's text, a folder's files."""
        for path in sorted(self._linked):
            is_file = (ROOT / path).is_file()
            body = _highlighted(app, path) if is_file else self._listing(app, path)
            heading = f"<h1><code>{html.escape(path)}</code></h1>"
            yield page_of(path), {"title": path, "body": heading + body}, "page.html"

    def _listing(self, app: Sphinx, folder: str) -> str:
        """The files of a folder, each with what it is; links where there is a page."""
        rows = []
        for child in sorted((ROOT / folder).iterdir()):
            if child.name.startswith((".", "__pycache__")):
                continue
            path = f"{folder}/{child.name}"
            name = html.escape(child.name + ("/" if child.is_dir() else ""))
            if path in self._linked:
                target = app.builder.get_relative_uri(page_of(folder), page_of(path))
                name = f'<a href="{html.escape(target)}">{name}</a>'
            about_it = html.escape(about(child))
            rows.append(f"<tr><td><code>{name}</code></td><td>{about_it}</td></tr>")
        return f'<div class="table-wrapper"><table class="docutils">{"".join(rows)}</table></div>'


def _highlighted(app: Sphinx, path: str) -> str:
    try:
        language = get_lexer_for_filename(path).aliases[0]
    except ClassNotFound:
        language = "text"
    text = (ROOT / path).read_text("utf-8")
    highlighter = app.builder.highlighter  # type: ignore[attr-defined]  # of builders of HTML
    block: str = highlighter.highlight_block(text, language, linenos=False)
    return block


def about(path: Path) -> str:
    """The first line of the docstring of a module or package, or nothing."""
    module = path / "__init__.py" if path.is_dir() else path
    if module.suffix != ".py" or not module.is_file():
        return ""
    match = re.match(r'"""(.+?)(?:"""|$)', module.read_text("utf-8"), re.MULTILINE)
    return match[1].replace("`", "") if match else ""


# -- docstrings


def drop_aliases(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Remove the docstring that Python itself gives to a field of a NamedTuple."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()


# -- tables


def let_names_break(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let long names in tables break behind a dot or an underscore, so that all columns fit."""
    for entry in doctree.findall(nodes.entry):
        for literal in list(entry.findall(nodes.literal)):
            parts = re.findall(r"[^._]+[._]*|[._]+", literal.astext())
            if len(literal.astext()) > NAME_LENGTH_MAX and len(parts) > 1:
                literal.clear()
                for part in parts:
                    literal += [nodes.Text(part), nodes.raw("", "<wbr>", format="html")]


# -- the search


def explain_results(app: Sphinx, pagename: str, *_: object) -> None:
    """Give the page of the search what each page is about, in the words of the start page."""
    if pagename == "search":
        about = {docname_of(each.page): each.about for each in Navigation(ROOT).entries()}
        data = json.dumps({name: text.replace("`", "") for name, text in about.items() if text})
        app.add_js_file(None, body=f"window.kwireAbout = {data};")
        app.add_js_file("search-about.js")


# -- diagrams


class Mermaid(SphinxDirective):
    """A flowchart of subgraphs, as one box for each subgraph with its nodes.

    Mermaid itself is a script of three megabytes that runs in the browser.  Arrows are not drawn.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the boxes as HTML.  Raises an error of the directive for other lines."""
        boxes: list[str] = []
        for line in self.content:
            if match := _GROUP.match(line):
                boxes.append(f'<div class="layer"><p>{html.escape(match[2])}</p><ul>')
            elif line.strip() == "end":
                boxes.append("</ul></div>")
            elif match := _NODE.match(line):
                name, colon, text = match[2].partition(": ")
                item = f"<b>{html.escape(name)}</b> {html.escape(text)}" if colon else name
                boxes.append(f"<li>{item}</li>")
            elif not _ARROWS.match(line) and not line.startswith("flowchart"):
                raise self.error(f"a flowchart of the site cannot have this line: {line}")
        text = f'<div class="layers">{"".join(_closed(boxes))}</div>'
        return [nodes.raw("", text, format="html")]


def _closed(boxes: list[str]) -> Iterator[str]:
    """The boxes; a node after the last subgraph gets a box of its own."""
    is_open = False
    for box in boxes:
        if box.startswith("<li>") and not is_open:
            yield f'<div class="layer"><ul>{box}</ul></div>'
            continue
        is_open = box.startswith("<div") or (is_open and box.startswith("<li>"))
        yield box


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    sources = SourcePages()
    app.connect("doctree-resolved", sources.link)
    app.connect("doctree-resolved", let_names_break)
    app.connect("html-collect-pages", sources.pages)
    app.connect("autodoc-process-docstring", drop_aliases)
    app.connect("html-page-context", explain_results)
    app.add_directive("mermaid", Mermaid)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
