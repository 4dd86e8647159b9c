"""One message: all of it, its bytes, a copy of it, and the form of a new one."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError, Misuse
from kwire.console.decoding.decoder import AUTO, FORMS, Decoder
from kwire.console.listing import number_in
from kwire.console.messages.one import (
    INPUT_FORMS,
    BadInput,
    Neighbours,
    copied,
    must_have,
    produce,
    record_at,
    record_input,
)
from kwire.console.messages.query import OFFSET_MAX
from kwire.console.messages.record import MessageRecord, header_text, whole_text
from kwire.console.site import SitePage, Visit
from kwire.console.views.messages import decoder_of
from kwire.console.views.topics import topic_path, topic_values

SHOWN_LENGTH_MAX: Final = 200_000
"""Characters of a value on its page, unless the visitor wants all."""
TYPED_LENGTH_MAX: Final = 1_000_000
"""Characters of a value that the form of a new record is filled with."""
PARTITION_MAX: Final = 2**31 - 1
EMPTY_FORM: Final = {
    "key": "", "key_form": "text", "value": "", "value_form": "text", "headers": "",
    "partition": "", "timestamp": "",
}  # fmt: skip
"""The fields of the form of a new record."""


def place_of(visit: Visit) -> tuple[str, int, int]:
    """Topic, partition and offset of the path.  Raises Misuse if they are no numbers."""
    partition = number_in(visit.path["partition"], 0, PARTITION_MAX, -1)
    offset = number_in(visit.path["offset"], 0, OFFSET_MAX, -1)
    if partition < 0 or offset < 0:
        raise Misuse("a message has a partition and an offset, which are whole numbers")
    return visit.path["topic"], partition, offset


def read_one(
    cluster: Cluster, place: tuple[str, int, int], decoder: Decoder, key_form: str, value_form: str
) -> tuple[Neighbours, MessageRecord | None]:
    """What is at a place, decoded: a registry may have to be asked."""
    found = record_at(cluster, *place)
    if found.record is None:
        return found, None
    shown = MessageRecord(found.record, decoder, key_form, value_form)
    shown.decode()
    return found, shown


async def message(visit: Visit) -> Response:
    """All of one message."""
    topic, partition, offset = place = place_of(visit)
    forms = {name: visit.query.get(name, AUTO) for name in ("keys", "values")}
    forms = {name: form if form in FORMS else AUTO for name, form in forms.items()}
    decoder = decoder_of(visit)
    found, shown = await visit.ask(read_one, place, decoder, forms["keys"], forms["values"])
    return visit.page(
        "message.html",
        status=200 if shown else 404,
        found=found,
        shown=shown,
        partition=partition,
        offset=offset,
        here=f"{topic_path(topic)}/messages/{partition}/{offset}",
        forms=FORMS,
        chosen=forms,
        whole=whole_text,
        length_max=None if visit.query.get("all") == "yes" else SHOWN_LENGTH_MAX,
        command=f"kwire consume {topic} --partitions {partition} --offset {offset} -n 1 "
        f"--format json{visit.site.command_options}",
        **topic_values(visit, "/messages"),
    )


async def raw(visit: Visit) -> Response:
    """The bytes of a key or value, as a file."""
    topic, partition, offset = place_of(visit)
    part = visit.path["part"]
    if part not in ("key", "value"):
        raise Misuse("a message has a key and a value")
    record = await visit.ask(must_have, topic, partition, offset)
    data = record.key if part == "key" else record.value
    name = f"{partition}-{offset}-{part}.bin"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(bytes(data or b""), media_type="application/octet-stream", headers=headers)


async def copy(visit: Visit) -> Response:
    """Write the message again, to its own topic or to another."""
    topic, partition, offset = place_of(visit)
    here = f"{topic_path(topic)}/messages/{partition}/{offset}"
    form = await visit.form()
    to = form.get("to", "").strip() or topic
    text = form.get("to_partition", "").strip()
    to_partition = number_in(text, 0, PARTITION_MAX, -1) if text else None
    if to_partition == -1:
        return visit.done(here, "A partition is a whole number.", is_error=True)
    try:
        at = await visit.ask(copied, topic, partition, offset, to, to_partition)
    except ClientError as error:
        return visit.done(here, f"The message was not copied: {error}", is_error=True)
    there = f"{topic_path(to)}/messages/{at[0]}/{at[1]}"
    return visit.done(there, f"Copied from {topic}, partition {partition}, offset {offset}.")


async def new(visit: Visit) -> Response:
    """The form of a new record, filled with a message if the URL names one."""
    topic = visit.path["topic"]
    values: dict[str, str] = {}
    source = visit.query.get("from", "")
    if source:
        partition, _, offset = source.partition(":")
        record = await visit.ask(
            must_have,
            topic,
            number_in(partition, 0, PARTITION_MAX, PARTITION_MAX),
            number_in(offset, 0, OFFSET_MAX, OFFSET_MAX),
        )
        values |= typed("key", record.key) | typed("value", record.value)
        values["headers"] = "\n".join(
            name if value is None else f"{name}: {header_text(value)}"
            for name, value in record.headers
        )
    return _form(visit, topic, values, None)


def typed(name: str, data: bytes | None) -> dict[str, str]:
    """The fields of the form for a key or value."""
    if data is None:
        return {name: "", f"{name}_form": "null"}
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        return {name: bytes(data).hex(" ")[:TYPED_LENGTH_MAX], f"{name}_form": "hex"}
    return {name: text[:TYPED_LENGTH_MAX], f"{name}_form": "text"}


async def send(visit: Visit) -> Response:
    """Write the record of the form, and go to its page."""
    topic = visit.path["topic"]
    form = await visit.form()
    try:
        record = record_input(form)
        partition, offset = await visit.ask(produce, topic, record)
    except BadInput as problem:
        return _form(visit, topic, form, problem)
    except ClientError as error:
        return _form(visit, topic, form, BadInput("", f"The record was not written: {error}"))
    there = f"{topic_path(topic)}/messages/{partition}/{offset}"
    return visit.done(there, f"Written to partition {partition} at offset {offset}.")


def _form(visit: Visit, topic: str, values: dict[str, str], problem: BadInput | None) -> Response:
    command = f"kwire produce {topic} --format json{visit.site.command_options}"
    return visit.page(
        "produce.html",
        status=200 if problem is None else 400,
        values={**EMPTY_FORM, **values},
        problem=problem,
        input_forms=INPUT_FORMS,
        command=command,
        **topic_values(visit, "/produce"),
    )


async def produce_page(visit: Visit) -> Response:
    """The form, or the record that it sends."""
    return await (send(visit) if visit.request.method == "POST" else new(visit))


PAGES = (
    SitePage("/topics/{topic}/messages/{partition}/{offset}", message),
    SitePage("/topics/{topic}/messages/{partition}/{offset}/copy", copy, methods=("POST",)),
    SitePage("/topics/{topic}/messages/{partition}/{offset}/{part}", raw),
    SitePage("/topics/{topic}/produce", produce_page, methods=("GET", "POST")),
)
