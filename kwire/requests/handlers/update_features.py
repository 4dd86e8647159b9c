"""UpdateFeatures (key 57): v0-2.

Behaviour
- Sets the levels of features, all that are named or none: one that cannot be set is the error of
  the whole request, INVALID_UPDATE_VERSION with a sentence about it.
- A level that not each member knows is refused: kwire.cluster.decisions.feature_updates has the
  rules.
- In a cluster it is the controller's: any other broker says NOT_CONTROLLER.

Version notes: v0 has `allow_downgrade`, which Apache Kafka does not read, so that it only goes up;
from v1 there is the type of an upgrade, and `validate_only`; up to v1 each feature that was set is
named in the answer.
"""

from __future__ import annotations

import logging

from kwire.broker.broker import Broker
from kwire.cluster.decisions.feature_updates import Update, update
from kwire.cluster.membership.committing import NOT_THE_CONTROLLER, commit_for_client
from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kwire.requests.context import Context

log = logging.getLogger("kwire.controller")

RESULTS_UNTIL = 1


async def handle(
    broker: Broker, request: UpdateFeaturesRequest, context: Context
) -> UpdateFeaturesResponse:
    if not broker.membership.is_controller:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.NOT_CONTROLLER, error_message=NOT_THE_CONTROLLER
        )
    wanted = [
        Update(each.feature, each.max_version_level, each.upgrade_type)
        for each in request.feature_updates
    ]

    def decide(image: ClusterImage) -> Change | None:
        change = update(image, wanted, broker.node_id)
        return None if request.validate_only else change

    try:
        refusal = await commit_for_client(
            broker.membership, [decide], log, "features are not updated"
        )
    except Refusal as refused:
        refusal = refused
    if refusal is not None:
        return UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message)
    if context.api_version > RESULTS_UNTIL:
        return UpdateFeaturesResponse(error_message=None)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(each.feature, ErrorCode.NONE, "NONE") for each in wanted],
    )
