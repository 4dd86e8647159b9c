"""UpdateFeatures (key 57): v0-2.

Behaviour
- Sets the levels of all requested features or of none.  If one cannot be set, the whole request has
  INVALID_UPDATE_VERSION, with a message about that feature.
- A level is refused unless every member of the cluster supports it;
  kwire.cluster.decisions.feature_updates has the rules.
- eligible.leader.replicas.version brings a `min.insync.replicas` of all brokers when it is set.
- A broker that is not the controller answers NOT_CONTROLLER.

Version notes: v0 has `allow_downgrade`, which Apache Kafka ignores, so v0 cannot lower a level;
from v1 an update has its type, and the request `validate_only`; in v0-1 the response names each
feature.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kwire.broker.broker import Broker
from kwire.cluster.decisions.feature_updates import FeatureUpdate, update_features
from kwire.cluster.decisions.new_cluster import min_isr_decisions
from kwire.cluster.membership.committing import NOT_THE_CONTROLLER, commit_for_client
from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.cluster.metadata.changes import Change, Decision
from kwire.cluster.metadata.features import ELR_VERSION
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.api_keys import ApiKey
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kwire.requests.context import Context
from kwire.requests.route import Right, Route

log = logging.getLogger("kwire.controller")

RESULTS_UNTIL = 1

ROUTE = Route(
    ApiKey.UPDATE_FEATURES,
    0,
    2,
    Right(AclOperation.ALTER, ResourceType.CLUSTER),
    by_controller=True,
)


async def handle(
    broker: Broker, request: UpdateFeaturesRequest, context: Context
) -> UpdateFeaturesResponse:
    """Set the feature levels in one commit, or only check them with `validate_only`."""
    if not broker.membership.is_controller:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.NOT_CONTROLLER, error_message=NOT_THE_CONTROLLER
        )
    updates = [
        FeatureUpdate(requested.feature, requested.max_version_level, requested.upgrade_type)
        for requested in request.feature_updates
    ]

    def decide(image: ClusterImage) -> Change | None:
        change = update_features(image, updates, broker.node_id)
        return None if request.validate_only else change

    decisions: list[Decision] = [decide]
    static_config = broker.node.settings.static_config
    if (
        static_config.zookeeper_connect is None
        and not request.validate_only
        and _turns_elr_on(broker.image, updates)
    ):
        decisions = [*min_isr_decisions(broker.image, static_config), decide]
    try:
        refusal = await commit_for_client(
            broker.membership, decisions, log, "Cannot update features"
        )
    except Refusal as refused:
        refusal = refused
    if refusal is not None:
        return UpdateFeaturesResponse(error_code=refusal.error, error_message=refusal.message)
    if context.api_version > RESULTS_UNTIL:
        return UpdateFeaturesResponse(error_message=None)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(requested.feature, ErrorCode.NONE, "NONE")
            for requested in updates
        ],
    )


def _turns_elr_on(image: ClusterImage, updates: Sequence[FeatureUpdate]) -> bool:
    is_wanted = any(update.feature == ELR_VERSION and update.level for update in updates)
    return is_wanted and not image.features.level(ELR_VERSION)


# -- rights


def refuse(
    request: UpdateFeaturesRequest, error: ErrorCode, version: int, message: str
) -> UpdateFeaturesResponse:
    """Return the response that refuses the request with `error`."""
    return UpdateFeaturesResponse(error_code=error, error_message=message)
