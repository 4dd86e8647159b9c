"""Settings of Sphinx for the documentation site; `python -m tools.website` passes this folder."""

from __future__ import annotations

from pathlib import Path

from kwire import __version__

project = "kwire"
project_copyright = "the authors of kwire"
version = release = __version__
language = "en"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "tools.website.extension",
]
root_doc = "index"

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
myst_url_schemes = ["http", "https", "mailto", "source"]

nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # names in signatures: most of them have no page
suppress_warnings = ["misc.highlighting_failure"]  # examples of JSON that is damaged on purpose
smartquotes = False  # a dash or a quote may be meant as it is written
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True

html_theme = "furo"
html_title = "kwire"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "static" / "search-scores.js")
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_show_search_summary = False  # it would be fetched, which no browser does for file://
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6a5d", "color-brand-content": "#0b6a5d"},
    "dark_css_variables": {"color-brand-primary": "#57c7b2", "color-brand-content": "#57c7b2"},
}
copybutton_exclude = ".linenos, .gp, .go"
