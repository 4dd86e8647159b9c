"""The steps of the comparison, in their order; later steps use what earlier ones created.

Replicas are placed by the steps and not by the controller, because its placement is random.  For
the few topics that brokers create by themselves, only their creation is compared.
"""

from __future__ import annotations

from kwire.conformance.kraft.stage import IDS, ClusterStep, RecordsStage
from kwire.conformance.kraft.steps import access, configs, losses, topics


def _start_all(stage: RecordsStage) -> None:
    for broker_id in IDS:
        stage.start(broker_id)


STEPS = (
    ClusterStep("the brokers start, one after the other", _start_all),
    *topics.STEPS,
    *configs.STEPS,
    *access.STEPS,
    *losses.STEPS,
)
