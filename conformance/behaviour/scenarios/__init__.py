"""All scenarios; each module has those of one subject."""

from __future__ import annotations

from kwire.conformance.behaviour.scenario import Scenario
from kwire.conformance.behaviour.scenarios import (
    configs,
    dead_letters,
    fetching,
    framing,
    groups,
    listing,
    offsets_topic,
    producing,
    topics,
    transactions,
)

SCENARIOS: tuple[Scenario, ...] = (
    *framing.scenario,
    *listing.scenario,
    *fetching.scenario,
    *producing.scenario,
    *topics.scenario,
    *configs.scenario,
    *groups.scenario,
    *offsets_topic.scenario,
    *transactions.scenario,
    *dead_letters.scenario,
)
