"""The schemas of records that are read.

A schema never changes, so each is requested once.  A failure is remembered for a while, so that a
page of records asks once and not for each of them.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kwire.registry.client.errors import RegistryFailure, RegistryRefused
from kwire.registry.client.framing import SchemaFrame
from kwire.registry.client.rest import RegistryClient
from kwire.registry.schemas.values.problem import CannotDecode
from kwire.registry.schemas.values.record_schema import RecordSchema

SCHEMAS_MAX: Final = 1000
FAILURE_KEPT_S: Final = 30.0
NOT_FOUND: Final = 404


class RegistryAway(CannotDecode):
    """The registry does not say what the schema is, and may say so later."""


@dataclass
class _Failure:
    problem: CannotDecode
    until_s: float


class RegisteredSchemas:
    """Gets schemas by their ids and GUIDs.  Threads may share it."""

    def __init__(self, client: RegistryClient, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self.client = client
        self._clock = clock
        self._lock = threading.Lock()
        self._schemas: OrderedDict[int | str, RecordSchema | _Failure] = OrderedDict()

    def of_frame(self, frame: SchemaFrame) -> RecordSchema:
        """The schema that a record names.

        Raises CannotDecode if the registry has no such schema, and RegistryAway for any other
        answer, or none.
        """
        named = frame.guid if frame.schema_id is None else frame.schema_id
        assert named is not None, "a frame has an id or a GUID"
        with self._lock:
            found = self._schemas.get(named)
            if isinstance(found, _Failure) and found.until_s < self._clock():
                found = None
            if found is None:
                found = self._schemas[named] = self._requested(named)
            self._schemas.move_to_end(named)
            while len(self._schemas) > SCHEMAS_MAX:
                self._schemas.popitem(last=False)
        if isinstance(found, _Failure):
            raise type(found.problem)(*found.problem.args)
        return found

    def _requested(self, named: int | str) -> RecordSchema | _Failure:
        try:
            if isinstance(named, int):
                return self.client.record_schema(named)
            return self.client.record_schema_of_guid(named)
        except RegistryFailure as problem:
            is_answer = isinstance(problem, RegistryRefused) and problem.status == NOT_FOUND
            kind = CannotDecode if is_answer else RegistryAway
            return _Failure(kind(f"schema {named}: {problem}"), self._clock() + FAILURE_KEPT_S)
