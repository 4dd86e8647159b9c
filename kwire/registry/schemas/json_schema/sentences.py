"""What Confluent's registry says about each type of error of JSON Schema."""

from __future__ import annotations

from typing import Final

from kwire.registry.schemas.kinds import Incompatibility, Sides
from kwire.registry.schemas.pairs import SchemaDifference

ADDED: Final = (
    "The keyword at path '{path}' in the {reader} schema is not present in the {writer} schema"
)
MORE: Final = (
    "The value at path '{path}' in the {reader} schema is more than its value in the {writer}"
    " schema"
)
LESS: Final = (
    "The value at path '{path}' in the {reader} schema is less than its value in the {writer}"
    " schema"
)
FEWER: Final = (
    "An array or combined type at path '{path}' has fewer elements in the {reader} schema than the"
    " {writer} schema"
)
FURTHER: Final = (
    "An array or combined type at path '{path}' has more elements in the {reader} schema than the"
    " {writer} schema"
)
VALUE: Final = "The value at path '{path}' is different between the {reader} and {writer} schema"
TYPE: Final = (
    "A type at path '{path}' is different between the {reader} schema and the {writer} schema"
)
OPEN: Final = (
    "The {reader} schema has an open content model and has a property or item at path '{path}'"
    " which is missing in the {writer} schema"
)
UNOPEN: Final = (
    "The {reader} schema has an unopen content model and has a required property at path '{path}'"
    " which is missing in the {writer} schema"
)
CLOSED: Final = (
    "The {reader} schema has a closed content model and is missing a property or item present at"
    " path '{path}' in the {writer} schema"
)
REMOVED: Final = (
    "A property or item is missing in the {reader} schema but present at path '{path}' in the"
    " {writer} schema and is not covered by its partially open content model"
)
NOT_COVERED: Final = (
    "The {reader} schema has a property or item at path '{path}' which is missing in the {writer}"
    " schema and is not covered by its partially open content model"
)

EXACT: Final = {
    "SCHEMA_ADDED": ADDED,
    "UNIQUE_ITEMS_ADDED": ADDED,
    "REQUIRED_ATTRIBUTE_ADDED": ADDED,
    "ADDITIONAL_PROPERTIES_REMOVED": ADDED,
    "ADDITIONAL_ITEMS_REMOVED": ADDED,
    "UNEVALUATED_PROPERTIES_REMOVED": ADDED,
    "UNEVALUATED_ITEMS_REMOVED": ADDED,
    "MULTIPLE_OF_EXPANDED": MORE,
    "DEPENDENCY_ARRAY_EXTENDED": FURTHER,
    "PRODUCT_TYPE_EXTENDED": FURTHER,
    "NOT_TYPE_EXTENDED": FURTHER,
    "ADDITIONAL_PROPERTIES_NARROWED": FEWER,
    "ADDITIONAL_ITEMS_NARROWED": FEWER,
    "UNEVALUATED_PROPERTIES_NARROWED": FEWER,
    "UNEVALUATED_ITEMS_NARROWED": FEWER,
    "ENUM_ARRAY_NARROWED": FEWER,
    "SUM_TYPE_NARROWED": FEWER,
    "PATTERN_CHANGED": VALUE,
    "MULTIPLE_OF_CHANGED": VALUE,
    "DEPENDENCY_ARRAY_CHANGED": VALUE,
    "TYPE_CHANGED": TYPE,
    "TYPE_NARROWED": TYPE,
    "COMBINED_TYPE_CHANGED": TYPE,
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": TYPE,
    "ENUM_ARRAY_CHANGED": TYPE,
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": OPEN,
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": OPEN,
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": UNOPEN,
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": CLOSED,
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": CLOSED,
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": REMOVED,
    "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": REMOVED,
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": NOT_COVERED,
    "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": NOT_COVERED,
}
"""For SCHEMA_ADDED Confluent's registry has no sentence; it is one of a keyword."""
ENDINGS: Final = {"_ADDED": ADDED, "_INCREASED": MORE, "_DECREASED": LESS}
"""The other types are those of limits, patterns and dependencies."""


def incompatibility(found: SchemaDifference, sides: Sides) -> Incompatibility:
    """A difference in words.  The place is a path of keywords and names."""
    sentence = EXACT.get(found.error_type)
    if sentence is None:
        sentence = ENDINGS[found.error_type[found.error_type.rindex("_") :]]
    text = sentence.format(
        path="#/" + "/".join(found.path), reader=sides.reader, writer=sides.writer
    )
    return Incompatibility(found.error_type, text)
