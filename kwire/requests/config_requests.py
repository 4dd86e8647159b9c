"""What AlterConfigs and IncrementalAlterConfigs share where the controllers are Apache Kafka's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kwire.cluster.decisions.config_changes import ConfigChange, refuse_on_broker
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import as_error_code
from kwire.security.store_changes import refuse_bad_stores

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.requests.routes import Send


async def refuse_or_forward(
    broker: Broker,
    request: Any,  # noqa: ANN401 - of either API
    stored: Sequence[tuple[Any, ConfigChange]],
    send: Send,
) -> None:
    """Refuse the changes that this broker refuses, and forward the others as a smaller request.

    `stored` are the resources of the request that the metadata keeps, each with its change, which
    gets its refusal if there is one.
    """
    changes = [change for _, change in stored]
    refuse_on_broker(broker.settings, broker.image, changes)
    await refuse_bad_stores(broker.settings, broker.image, changes, broker.check_stores)
    left = [(resource, change) for resource, change in stored if change.refusal is None]
    if not left:
        return
    response = await send(replace(request, resources=[resource for resource, _ in left]))
    results = {(each.resource_type, each.resource_name): each for each in response.responses}
    for _, change in left:
        result = results[change.key]
        if result.error_code:
            change.refusal = Refusal(as_error_code(result.error_code), result.error_message)
