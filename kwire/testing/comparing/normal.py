"""Converts responses to trees of plain values without what may differ between brokers.

Each broker's responses are converted separately.  A generated id becomes a word such as
"topic_id 1", numbered by first appearance, so that equal ids stay equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Any, TypeAlias, cast

from kwire.codecs.batches import BatchHeader, TimestampType, check_crc, iter_batches, records
from kwire.codecs.primitives import ZERO_UUID, Message, Struct
from kwire.codecs.uuids import uuid_text
from kwire.testing.comparing.rules import ITEMS, TEXTS, ComparisonRule, rules_of

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | int | float | bool | None"

UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
"""Matches member ids in text."""

OF_LISTS = frozenset({ComparisonRule.UNORDERED, ComparisonRule.OWN, ComparisonRule.SERVED})


def plain(value: Any) -> Tree:  # noqa: ANN401 - any part of a message
    """A message as a tree with all its values, for people to read."""
    if isinstance(value, Struct):
        return {name: plain(getattr(value, name)) for name in value.__slots__}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        # Longer bytes would make a report unreadable: only their size and beginning are shown.
        return "0x" + data.hex() if len(data) <= 2000 else f"{len(data)} bytes 0x{data[:200].hex()}"
    return cast(Tree, value)


class Normaliser:
    """Converts the responses of one broker during one case or trace; remembers the ids in them."""

    def __init__(
        self,
        prefix: str,
        node_id: int,
        topics: Mapping[bytes, str],
        common_keys: Set[int],
        shared_prefix: str = "",
    ) -> None:
        """Names that contain `prefix` belong to the case; with an empty prefix, all names do.

        `topics` has topic names by their ids, and `common_keys` the API keys that both brokers
        serve; both may grow during the case.
        """
        self._prefixes = [p for p in (prefix, shared_prefix) if p]
        self.node_id = node_id
        """Id of the broker."""
        self.is_of_cluster = False
        """Whether the responses come from several brokers: then node ids are compared as they are,
        and any broker may be the controller."""
        self._topics = topics
        self._common_keys = common_keys
        self._ids: dict[str, dict[Any, str]] = {}
        self._asked = ""
        self._is_sorting = False
        """Whether trees are made as sort keys: then new ids get no numbers."""

    def reply(self, message: Message, request: Message | bytes) -> Tree:
        """The tree of a response to `request`."""
        self._asked = repr(request)
        return self._value(message, type(message).__name__)

    def _value(self, value: Any, where: str) -> Tree:  # noqa: ANN401 - any part of a message
        """Return the tree of any part of a message.  `where` is its path, Message.field.field.
        The first rule for the path decides; a value without a rule is converted by its type."""
        rules = rules_of(where)
        if isinstance(value, list):
            return self._list(value, where, rules)
        for rule in rules:
            if rule in OF_LISTS:
                continue
            return self._by_rule(rule, value, where.rpartition(".")[2])
        if isinstance(value, Struct):
            names = value.__slots__
            return {name: self._value(getattr(value, name), f"{where}.{name}") for name in names}
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value), where)
        return cast(Tree, value)

    def _list(self, items: list[Any], where: str, rules: tuple[ComparisonRule, ...]) -> Tree:
        """Return the trees of the items of a list, after the rules of its path have removed,
        sorted or masked items.  A list whose rule is ANY becomes the word "any"."""
        if ComparisonRule.ANY in rules:
            return "any"
        if ComparisonRule.OWN in rules:
            items = [item for item in items if self._is_own(item)]
        if ComparisonRule.SERVED in rules:
            items = [item for item in items if item.api_key in self._common_keys]
        if ComparisonRule.NODE in rules:
            return [self._by_rule(ComparisonRule.NODE, item, where) for item in items]
        special = {item.name: item for item in ITEMS if item.where == where}
        if ComparisonRule.UNORDERED in rules:
            items = sorted(items, key=lambda item: self._order(item, where))
        trees = [self._value(item, where) for item in items]
        for tree in trees:
            if special and isinstance(tree, dict) and tree["name"] in special:
                tree.update(dict.fromkeys(special[str(tree["name"])].fields, "any"))
        return trees

    def _order(self, item: Any, where: str) -> str:  # noqa: ANN401 - any part of a message
        """The sort key of a list item: its tree, in which new ids have no numbers yet.

        Numbers depend on the order of appearance, which sorting decides.
        """
        was_sorting, self._is_sorting = self._is_sorting, True
        tree = self._value(item, where)
        self._is_sorting = was_sorting
        return repr(tree)

    def _is_own(self, item: Struct) -> bool:
        """Whether an item of a list belongs to the case: its name has the prefix, or the request
        names it.  Items without a name belong to it, and so do all items if no prefix is set."""
        if not self._prefixes:
            return True
        name = str(getattr(item, item.__slots__[0], ""))
        for attribute in ("name", "topic", "group_id", "resource_name"):
            if hasattr(item, attribute):
                name = getattr(item, attribute)
        if name is None or name == "":
            return True
        return self._prefixes[0] in name or repr(name) in self._asked

    def _by_rule(self, rule: ComparisonRule, value: Any, kind: str) -> Tree:  # noqa: ANN401 - any scalar
        """Return the word or value by which `rule` compares a scalar.  `kind` is the name of the
        field."""
        match rule:
            case ComparisonRule.ANY:
                return "any"
            case ComparisonRule.PRESENT:
                return "something" if value else value
            case ComparisonRule.SIGN:
                return "positive" if value > 0 else "none" if value < 0 else 0
            case ComparisonRule.NODE:
                if self.is_of_cluster and kind == "controller_id" and value >= 0:
                    return "a broker"
                return "self" if value == self.node_id else value
            case ComparisonRule.ID:
                return self._id(kind, value)
        raise AssertionError(f"{rule} is for lists")

    def _id(self, kind: str, value: Any) -> Tree:  # noqa: ANN401 - any scalar
        """Return a word for a generated id: "id of" its topic, or its kind and a number in order
        of first appearance.  Values that are not ids (null, all zeros, negative numbers) stay as
        they are."""
        if value is None or value == ZERO_UUID or (isinstance(value, int) and value < 0):
            return self._bytes(value, "") if isinstance(value, bytes) else value
        if value in self._topics:
            return f"id of {self._text(self._topics[value])}"
        known = self._ids.setdefault(kind, {})
        if self._is_sorting:
            return known.get(value, kind)
        return known.setdefault(value, f"{kind} {len(known) + 1}")

    def _text(self, text: str) -> str:
        """Return a text without what may differ between brokers: prefixes of names, topic ids,
        other UUIDs, and the patterns of `TEXTS`."""
        for prefix in self._prefixes:
            text = text.replace(prefix, "~")
        for topic_id, name in self._topics.items():
            spelled = uuid_text(topic_id)
            if spelled in text:
                text = text.replace(spelled, f"<id of {self._text(name)}>")
        for masked in TEXTS:
            text = masked.pattern.sub(masked.instead, text)
        return UUID.sub(lambda found: str(self._id("uuid", found[0])), text)

    def _bytes(self, data: bytes, where: str) -> Tree:
        """Return bytes as hexadecimal text, with `~` in place of the prefixes; record batches as
        trees."""
        if where.endswith(".records"):
            return self._batches(data, where)
        for prefix in self._prefixes:
            data = data.replace(prefix.encode(), b"~")
        return "0x" + data.hex()

    # -- records

    def _batches(self, data: bytes, where: str) -> Tree:
        """Return the trees of record batches.  Bytes after the last whole batch are compared by
        their count, since a response may end within a batch."""
        batches: list[Tree] = []
        end = 0
        for pos, header in iter_batches(data):
            batches.append(self._batch(data, pos, header, where))
            end = pos + header.size_bytes
        if end < len(data):
            batches.append({"torn_bytes": len(data) - end})
        return batches

    def _batch(self, data: bytes, pos: int, header: BatchHeader, where: str) -> Tree:
        """Return the tree of one batch: its header and its records, or why it is corrupt.
        Timestamps that the broker sets, and the CRC that covers them, are left out."""
        by_broker = header.timestamp_type == TimestampType.LOG_APPEND_TIME or header.is_control
        differing = {"crc"}
        if by_broker:
            differing.add("max_timestamp")
        if header.is_control:
            differing.add("base_timestamp")
        tree: dict[str, Tree] = {
            name: self._value(getattr(header, name), f"{where}.{name}")
            for name in header._fields
            if name not in differing
        }
        try:
            check_crc(data, pos, header)
            tree["records"] = [
                {
                    "offset": record.offset,
                    "timestamp": "append time" if by_broker else record.timestamp,
                    "key": None if record.key is None else self._bytes(bytes(record.key), ""),
                    "value": None if record.value is None else self._bytes(bytes(record.value), ""),
                    "headers": [[k, None if v is None else v.hex()] for k, v in record.headers],
                }
                for record in records(data, pos)
            ]
        except ValueError as error:
            tree["corrupt"] = str(error)
        return tree
