"""Builds the documentation site, `make docs`, from the Markdown pages of the repository.

The pages stay plain Markdown that a repository browser shows.  `docs/README.md` is the start page,
and its lists of links are the navigation of the site.  The steps, with their modules:

1. `navigation` reads the sections and pages off the start page.
2. `staging` copies these pages into one folder, with links that fit the site (`links`), and writes
   the pages of the Python API.
3. Sphinx builds the folder (`conf`), with `extension` for pages of source files and for diagrams.
4. `llms` writes `llms.txt`, `llms-full.txt` and the Markdown of each page beside the site.
"""
