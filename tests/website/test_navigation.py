"""The start page leads to every page, and the staged pages have links that the site can follow."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.website.__main__ import SiteFolderError, emptied
from tools.website.links import SOURCE_SCHEME, LinkRewriter, parts_of
from tools.website.llms import index
from tools.website.navigation import PYTHON_API, START, Navigation, docname_of, sections_of
from tools.website.staging import section_toctree, stage

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Start", "Guides", "Reference", "Explanation", "Change kwire")


@pytest.fixture(scope="module")
def navigation() -> Navigation:
    return Navigation(ROOT)


def test_start_page_has_the_parts_of_a_documentation(navigation: Navigation) -> None:
    assert tuple(section.title for section in navigation.sections) == PARTS


def test_navigation_has_every_page_below_docs(navigation: Navigation) -> None:
    pages = {
        page.relative_to(ROOT).as_posix()
        for page in (ROOT / "docs").rglob("*.md")
        if not page.name.startswith("+")  # fragments of the change log
    }
    missing = pages - navigation.docnames().keys()
    assert not missing, f"add a line for each of these pages to {START}: {sorted(missing)}"


def test_each_page_of_the_navigation_says_what_it_is_about(navigation: Navigation) -> None:
    entries = [entry for section in navigation.sections for entry in section.entries]
    assert not [entry.page for entry in entries if not entry.about]
    names = [entry.title for entry in entries]
    assert len(set(names)) == len(names)


def test_no_two_pages_have_one_name_on_the_site(navigation: Navigation) -> None:
    names = navigation.docnames()
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("docs/testing.md", "testing"),
        ("docs/decisions/README.md", "decisions/index"),
        ("docs/decisions/0001-one-process-one-loop.md", "decisions/0001-one-process-one-loop"),
        ("docker/README.md", "docker/index"),
        ("README.md", "overview"),
        ("ARCHITECTURE.md", "architecture"),
        ("kwire/testing/__init__.py", "python/testing"),
    ],
)
def test_page_has_its_path_as_its_name_on_the_site(page: str, name: str) -> None:
    assert docname_of(page) == name


def test_section_is_a_heading_with_list_items_that_begin_with_a_link() -> None:
    text = (
        "# Title\n\n- [No](no.md)\n\n## One\n\n- [A](a.md): about a,\n  in two lines\n"
        "- [B](../B.md): b\n- no link\n\n## None\n\ntext\n"
    )
    (section,) = sections_of(text)
    assert section.title == "One"
    assert section.entries == (("A", "docs/a.md", "about a, in two lines"), ("B", "B.md", "b"))
    assert "A </a>\nB </b>\n" in section_toctree(section)


@pytest.mark.parametrize(
    ("written", "on_the_site"),
    [
        ("[a](testing.md)", "[a](../testing.md)"),
        ("[a](../testing.md#faults)", "[a](../testing.md#faults)"),
        ("[a](#here)", "[a](#here)"),
        ("[a](https://example.org/x.md)", "[a](https://example.org/x.md)"),
        ("[../testing.md](../testing.md)", "[Test in Python](../testing.md)"),
        ("[a](../../docker)", "[a](../docker/index.md)"),
        ("[a](../../log/log.py)", f"[a]({SOURCE_SCHEME}log/log.py)"),
        ("![a](../console/topics.png)", "![a](../console/topics.png)"),
        ("```\n[a](no.md)\n```\n", "```\n[a](no.md)\n```\n"),
    ],
)
def test_links_are_rewritten_outside_code(
    navigation: Navigation, written: str, on_the_site: str
) -> None:
    links = LinkRewriter(ROOT, navigation.docnames(), navigation.titles())
    page = "docs/decisions/README.md"
    written = written.replace("(testing.md", "(../testing.md")
    assert links.rewritten(written, page) == on_the_site


def test_link_to_a_missing_file_is_refused(navigation: Navigation) -> None:
    links = LinkRewriter(ROOT, navigation.docnames(), {})
    with pytest.raises(ValueError, match=r"docs/x\.md links to no\.py, which does not exist"):
        links.rewritten("[a](no.py)", "docs/x.md")


def test_parts_of_a_page_are_text_and_code() -> None:
    assert list(parts_of("a\n```sh\nb\n```\nc\n")) == [
        ("a\n", False),
        ("```sh\nb\n```\n", True),
        ("c\n", False),
    ]


def test_staged_pages_link_to_staged_pages_and_images(
    navigation: Navigation, tmp_path: Path
) -> None:
    stage(navigation, tmp_path)
    link = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")
    for page, name in navigation.docnames().items():
        path = tmp_path / f"{name}.md"
        text = "".join(part for part, is_code in parts_of(path.read_text()) if not is_code)
        for target in () if page in PYTHON_API else link.findall(text):
            if "://" in target:
                continue
            if target.startswith(SOURCE_SCHEME):
                assert (ROOT / target.removeprefix(SOURCE_SCHEME)).exists()
            else:
                assert (path.parent / target).is_file(), f"{page}: {target}"


def test_text_for_language_models_lists_each_page_with_its_summary(navigation: Navigation) -> None:
    text = index(navigation, (ROOT / START).read_text())
    assert text.startswith("# kwire\n\n> kwire is a broker in Python")
    assert "\n## Guides\n" in text
    assert "\n- [Spark](spark.md): read and write topics" in text


def test_folder_with_other_files_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(SiteFolderError, match="has other files than a site"):
        emptied(tmp_path)
    assert (tmp_path / "precious").exists()


def test_folder_of_an_earlier_site_is_emptied(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").touch()
    (site / "llms.txt").touch()
    assert not emptied(site).exists()
    assert not emptied(tmp_path / "new").exists()
