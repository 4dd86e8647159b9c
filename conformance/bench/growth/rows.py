"""All scales of the growth benchmark."""

from __future__ import annotations

from kwire.conformance.bench.growth.held import ConnectionScale, LongPollScale, SessionScale
from kwire.conformance.bench.growth.scale import Scale
from kwire.conformance.bench.growth.scales import (
    GroupScale,
    ProducerIdScale,
    SegmentScale,
    TopicScale,
    WideTopicScale,
)

SCALES: tuple[Scale, ...] = (
    TopicScale(),
    WideTopicScale(),
    GroupScale(),
    ConnectionScale(),
    LongPollScale(),
    SegmentScale(),
    ProducerIdScale(),
    SessionScale(),
)
