"""Names and values that must neither run nor break a page.

Each payload would leave a mark if a browser ran it or made elements of it: an attribute
`data-run` of the document's element, an element with the attribute `data-made`, or a dialog.
"""

from __future__ import annotations

BIDI = "user\u202eexe.fdp\u2066 \u2067right to left\u2069"
"""Characters that turn the direction of the text around them."""
CONTROLS = "bell\x07 escape\x1b[31mred\x1b[0m null\x00 delete\x7f next\x85 bom\ufeff end"
SCRIPT = '<script data-made>document.documentElement.dataset.run = 1; alert("run")</script>'
IMAGE = '<img data-made src=x onerror="document.documentElement.dataset.run = 2">'
QUOTES = "\"'><svg data-made onload=document.documentElement.dataset.run=3>"
TEMPLATE = "{{ 7 * 7 }} ${7 * 7} {% raw %} #{7*7} <%= 7*7 %>"
LINK = "javascript:document.documentElement.dataset.run=4"
CLOSING = "</td></tr></table></main></body></html><h1 data-made>after the end</h1>"
COMMENT = "<!-- <textarea data-made> ]]> --!> <plaintext data-made>"
COMBINING = "z" + "\u0351\u0362\u0346" * 40 + " zalgo"
WIDE = "\ufdfd" * 60
LONG = "no-space-" * 60
SURROGATE = b"half \xed\xa0\x80 of a pair \xff\xfe not UTF-8"

PAYLOADS: dict[str, str] = {
    "bidi": BIDI,
    "controls": CONTROLS,
    "script": SCRIPT,
    "image": IMAGE,
    "quotes": QUOTES,
    "template": TEMPLATE,
    "link": LINK,
    "closing": CLOSING,
    "comment": COMMENT,
    "combining": COMBINING,
    "wide": WIDE,
    "long": LONG,
}
"""By short names that Kafka accepts as part of a topic's name."""

LINE_SIZE_BYTES = 1_000_000
LINE = (IMAGE + "x" * 937) * (LINE_SIZE_BYTES // (len(IMAGE) + 937) + 1)
ONE_MEGABYTE = LINE[:LINE_SIZE_BYTES]
"""One line without a space in most of it."""

NAMES = (
    BIDI,
    SCRIPT,
    IMAGE,
    QUOTES,
    TEMPLATE,
    LINK,
    CLOSING,
    COMMENT,
    "a/b?c=d&e#f%2e%2e",
    "../..",
)
"""For groups, client ids, users and header keys, which may have any characters."""
