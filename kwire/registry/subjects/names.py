"""Names of subjects: `orders-value`, or `:.context:orders-value` in a context.

A context has subjects and ids of its own.  That of names without a prefix is the default context,
`.`.  `:.context:` without a subject stands for the whole context, and `:*:` for all contexts.
Source: Confluent Schema Registry's documentation, Schema contexts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

DEFAULT_CONTEXT: Final = "."
CONTEXT_START: Final = ":."
ALL_CONTEXTS: Final = ":*:"
RESERVED: Final = ("__GLOBAL", "__EMPTY")
"""Names by which Confluent's interface refers to the global level and to the empty subject."""


class SubjectName(NamedTuple):
    """A name in its two parts."""

    context: str
    """`.` or `.NAME`."""
    subject: str
    """The name within the context; empty for the whole context."""

    @property
    def text(self) -> str:
        """The name with its context, unless that is the default one."""
        if self.context == DEFAULT_CONTEXT:
            return self.subject
        return f":{self.context}:{self.subject}"


def split_name(text: str) -> SubjectName:
    """The context and the subject of a name."""
    if not text.startswith(CONTEXT_START):
        return SubjectName(DEFAULT_CONTEXT, text)
    context, _, subject = text[1:].partition(":")
    return SubjectName(context, subject)


def normal_name(text: str) -> str:
    """The name as the registry keeps it: `:.:orders` is `orders`."""
    return split_name(text).text


def context_of(text: str) -> str:
    """The context of a name."""
    return split_name(text).context if text.startswith(CONTEXT_START) else DEFAULT_CONTEXT


def whole_context(context: str) -> str:
    """The name that stands for a context; empty for the default one."""
    return SubjectName(context, "").text


def in_context_of(parent: str, name: str) -> str:
    """The name of a subject to which a schema of `parent` refers.

    A name without a context is one of the parent's context.
    """
    if name.startswith(CONTEXT_START):
        return normal_name(name)
    return SubjectName(context_of(parent), name).text


def has_controls(text: str) -> bool:
    """Whether a text has a control character."""
    return any(ord(letter) < 32 or 127 <= ord(letter) < 160 for letter in text)


def is_valid(text: str) -> bool:
    """Whether a schema may be registered under this name."""
    if not text or has_controls(text):
        return False
    name = split_name(text)
    return bool(name.subject) and name.subject not in RESERVED
