"""Writes keys and values as Confluent's serializers do: with the id of a registered schema.

A schema that is given is registered when the first record is written (`auto.register.schemas`), or
looked up.  Without one, it is the latest version of the subject (`use.latest.version`), or that of
an id (`use.schema.id`).  Confluent's documentation, "Schema Registry serializers".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kwire.client.errors import Misuse
from kwire.registry.client.described import RegisteredVersion, SchemaText
from kwire.registry.client.errors import SCHEMA_NOT_FOUND, SUBJECT_NOT_FOUND, RegistryRefused
from kwire.registry.client.framing import framed
from kwire.registry.client.rest import RegistryClient
from kwire.registry.client.subject_names import SubjectNames, subject_of
from kwire.registry.schemas.kinds import InvalidSchemaError, Reference, SchemaKind
from kwire.registry.schemas.protobuf.reading import file_of
from kwire.registry.schemas.protobuf.well_known import well_known
from kwire.registry.schemas.values.data import Data
from kwire.registry.schemas.values.problem import CannotEncode
from kwire.registry.schemas.values.record_schema import RecordSchema


@dataclass(frozen=True)
class SchemaChoice:
    """Which schema the records have, and how it is registered.

    text           The schema; None: the latest version of the subject, or that of `schema_id`.
    schema_id      The id of the schema.
    message        The name of a Protobuf message; without it, the first of the schema.
    names          How the subject is named.
    registers      Whether the text is registered; else it must be registered already.
    normalizes     Whether the registry normalizes the text.
    checks         Whether JSON is checked against the schema before it is written.
    imports        The texts of the files that a Protobuf schema imports, by their names.  They are
                   registered first, each under its name, as Confluent's serializers do it.
    """

    kind: SchemaKind
    text: SchemaText | None = None
    schema_id: int | None = None
    message: str = ""
    names: SubjectNames = SubjectNames.TOPIC
    registers: bool = True
    normalizes: bool = False
    checks: bool = True
    imports: Mapping[str, str] = field(default_factory=dict)


class RecordSerializer:
    """Encodes the keys or the values of a topic's records.

    It asks the registry when the first record is encoded.
    """

    def __init__(self, client: RegistryClient, topic: str, part: str, choice: SchemaChoice) -> None:
        """`part` is `key` or `value`."""
        self._client = client
        self._topic = topic
        self._part = part
        self._choice = choice
        self._registered: tuple[int, RecordSchema] | None = None

    def prepare(self) -> None:
        """Register or look up the schema now.  Raises as `encoded`, but for data."""
        self._known()

    def encoded(self, data: Data) -> bytes:
        """The bytes of a key or value.

        Raises CannotEncode if the data are not of the schema, RegistryFailure if the registry does
        not answer or refuses the schema, and Misuse if the choice cannot be fulfilled.
        """
        schema_id, schema = self._known()
        choice = self._choice
        return framed(schema_id, schema.encoded(data, choice.message, checks=choice.checks))

    def _known(self) -> tuple[int, RecordSchema]:
        """The id and the schema; the registry is asked once."""
        if self._registered is None:
            schema_id, schema = self._requested()
            if schema.kind is not self._choice.kind:
                raise Misuse(f"schema {schema_id} is of {schema.kind}, not of {self._choice.kind}")
            self._registered = schema_id, schema
        return self._registered

    def _requested(self) -> tuple[int, RecordSchema]:
        choice = self._choice
        if choice.schema_id is not None:
            return choice.schema_id, self._client.record_schema(choice.schema_id)
        if choice.text is None:
            return self._latest()
        text = self._with_imports(choice.text)
        schema = RecordSchema(text.kind, text.text, self._client.texts_of(text.references))
        try:
            name = schema.record_name(choice.message)
        except (InvalidSchemaError, CannotEncode) as problem:
            raise Misuse(str(problem)) from None
        subject = subject_of(choice.names, self._topic, self._part, name)
        return self._id_of(subject, text), schema

    def _id_of(self, subject: str, text: SchemaText) -> int:
        choice = self._choice
        if choice.registers:
            return self._client.register(subject, text, normalize=choice.normalizes)
        found = self._looked_up(subject, text)
        assert found.schema_id is not None, "a look-up returns the id"
        return found.schema_id

    def _version_of(self, subject: str, text: SchemaText) -> int:
        choice = self._choice
        if choice.registers:
            self._client.register(subject, text, normalize=choice.normalizes)
        version = self._looked_up(subject, text).version
        assert version is not None, "a look-up returns the version"
        return version

    def _looked_up(self, subject: str, text: SchemaText) -> RegisteredVersion:
        """What is registered under the subject.  Raises Misuse if the schema is not."""
        try:
            return self._client.look_up(subject, text, normalize=self._choice.normalizes)
        except RegistryRefused as refused:
            if refused.code in (SUBJECT_NOT_FOUND, SCHEMA_NOT_FOUND):
                raise Misuse(f"the schema is not registered under the subject {subject}") from None
            raise

    def _latest(self) -> tuple[int, RecordSchema]:
        choice = self._choice
        if choice.names is not SubjectNames.TOPIC:
            raise Misuse(f"a schema is needed to name the subject by its type ({choice.names})")
        subject = subject_of(choice.names, self._topic, self._part, "")
        try:
            return self._client.record_schema_of_version(subject)
        except RegistryRefused as refused:
            if refused.code == SUBJECT_NOT_FOUND:
                raise Misuse(
                    f"the registry has no subject {subject}: give the schema, to register it"
                ) from None
            raise

    def _with_imports(self, text: SchemaText) -> SchemaText:
        """The schema with references to the files that it imports, which are registered first."""
        if text.kind is not SchemaKind.PROTOBUF or not self._choice.imports:
            return text
        given = {each.name for each in text.references}
        references = self._imported(text.text, given, ())
        return SchemaText(text.kind, text.text, (*text.references, *references))

    def _imported(
        self, text: str, given: set[str], importing: tuple[str, ...]
    ) -> tuple[Reference, ...]:
        """References to the imports of a text, but to those that are `given`.

        `importing` are the files whose imports are followed.
        """
        found = []
        try:
            file = file_of(text)
        except InvalidSchemaError as problem:
            raise Misuse(str(problem)) from None
        for name in (*file.imports, *file.public_imports):
            if name in given or well_known(name) is not None:
                continue
            if name in importing:
                raise Misuse(f"{name} imports itself")
            if name not in self._choice.imports:
                raise Misuse(f"the schema imports {name}, which is not there")
            inner = self._choice.imports[name]
            own = SchemaText(
                SchemaKind.PROTOBUF, inner, self._imported(inner, set(), (*importing, name))
            )
            found.append(Reference(name, name, self._version_of(name, own)))
        return tuple(found)
