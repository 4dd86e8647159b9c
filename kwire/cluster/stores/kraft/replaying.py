"""MetadataReplay: the image as of an offset of `__cluster_metadata` (pure).

It takes the committed batches of the log in order, or a snapshot, which replaces everything.  Each
gives the next image and its delta.  Batches in an open transaction (KIP-866) give none until the
transaction ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kwire.cluster.metadata.delta import ClusterDelta, delta_between, difference
from kwire.cluster.metadata.features import (
    KRAFT_VERSION,
    METADATA_VERSION,
    NEWEST_METADATA_VERSION,
    NEWEST_METADATA_VERSION_NAME,
    FinalizedFeatures,
)
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.stores.kraft.draft import AclIds, ImageDraft
from kwire.cluster.stores.kraft.records import (
    OLDEST_LEVEL,
    BadMetadata,
    MetadataBatch,
)
from kwire.codecs.messages.abort_transaction_record import AbortTransactionRecord
from kwire.codecs.messages.begin_transaction_record import BeginTransactionRecord
from kwire.codecs.messages.end_transaction_record import EndTransactionRecord
from kwire.codecs.messages.kraft_version_record import KRaftVersionRecord
from kwire.codecs.messages.snapshot_footer_record import SnapshotFooterRecord
from kwire.codecs.messages.snapshot_header_record import SnapshotHeaderRecord
from kwire.codecs.messages.voters_record import VotersRecord
from kwire.codecs.primitives import Message


class PublishedImage(NamedTuple):
    """The next image, and its difference from the image before."""

    image: ClusterImage
    delta: ClusterDelta


class MetadataReplay:
    """See the module.

    image          the image that was published last; its version is the offset of the next record
    acl_ids        the access control entries of the image by their ids
    end_offset     the offset of the next batch; larger than the image's version in a transaction
    epoch          the leader epoch of the newest batch
    time_ms        the time of the newest record
    voters         the newest VotersRecord, None with static voters

    After an exception it must not be used any longer.
    """

    def __init__(self, cluster_id: str) -> None:
        self.image = ClusterImage(cluster_id, features=FinalizedFeatures({}, {}, 0))
        self.acl_ids: AclIds = AclIds()
        self.end_offset = 0
        self.epoch = 0
        self.time_ms = -1
        self.voters: VotersRecord | None = None
        self._pending: list[Message] | None = None  # records of an open transaction
        self._pending_from = 0

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of records is open."""
        return self._pending is not None

    def add(self, batch: MetadataBatch) -> PublishedImage | None:
        """Replay the next batch; return what to publish, None while a transaction is open.

        Raises BadMetadata: the batch does not follow, or contradicts the metadata.
        """
        if batch.base_offset != self.end_offset:
            raise BadMetadata(
                f"a batch from offset {batch.base_offset} on follows the offset {self.end_offset}"
            )
        draft = ImageDraft(self.image, self.acl_ids)
        self._replay(batch, draft)
        self.end_offset = batch.last_offset + 1
        self.epoch, self.time_ms = batch.epoch, max(self.time_ms, batch.time_ms)
        version = self.end_offset if self._pending is None else self._pending_from
        if version <= self.image.version:
            return None
        before = self.image
        self.image, self.acl_ids, touched = draft.finish(version)
        return PublishedImage(self.image, difference(before, self.image, touched))

    def load(self, end_offset: int, epoch: int, batches: Iterable[MetadataBatch]) -> PublishedImage:
        """Replace everything by the snapshot of all records before `end_offset`.

        Raises BadMetadata; the image is unchanged then.
        """
        fresh = MetadataReplay(self.image.cluster_id)
        draft = ImageDraft(fresh.image, fresh.acl_ids)
        first: Message | None = None
        last: Message | None = None
        for batch in batches:
            fresh._replay(batch, draft)
            first, last = first or batch.records[0], batch.records[-1]
            if isinstance(first, SnapshotHeaderRecord):
                fresh.time_ms = first.last_contained_log_timestamp
        if not isinstance(first, SnapshotHeaderRecord) or not isinstance(
            last, SnapshotFooterRecord
        ):
            raise BadMetadata(f"the snapshot up to offset {end_offset} is not complete")
        before = self.image
        self.image, self.acl_ids, _ = draft.finish(end_offset)
        self.end_offset, self.epoch, self.time_ms = end_offset, epoch, fresh.time_ms
        self.voters, self._pending = fresh.voters, None
        return PublishedImage(self.image, delta_between(before, self.image))

    def _replay(self, batch: MetadataBatch, draft: ImageDraft) -> None:
        """Add the records of a batch to the draft.

        Records of a transaction are added when it ends, and never if it is aborted.
        """
        for offset, record in enumerate(batch.records, batch.base_offset):
            try:
                if batch.is_control:
                    self._replay_control_record(record, draft)
                else:
                    self._replay_record(offset, record, draft)
            except BadMetadata as error:
                raise BadMetadata(f"offset {offset} of the metadata log: {error}") from error

    def _replay_record(self, offset: int, record: Message, draft: ImageDraft) -> None:
        pending = self._pending
        if isinstance(record, BeginTransactionRecord):
            if pending is not None:
                raise BadMetadata("a transaction begins within another one")
            self._pending, self._pending_from = [], offset
        elif isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if pending is None:
                raise BadMetadata("a transaction ends that has not begun")
            self._pending = None
            for held_back in pending if isinstance(record, EndTransactionRecord) else ():
                draft.add(held_back)
        elif pending is not None:
            pending.append(record)
        else:
            draft.add(record)

    def _replay_control_record(self, record: Message, draft: ImageDraft) -> None:
        """Take a record of the quorum.

        A new leader ends no transaction: it writes an AbortTransactionRecord itself.
        """
        if isinstance(record, VotersRecord):
            self.voters = record
        elif isinstance(record, KRaftVersionRecord):
            # At 1, the log names the voters (KIP-853).
            draft.levels[KRAFT_VERSION] = record.kraft_version


def why_unsupported(image: ClusterImage) -> str | None:
    """Say why no broker of this version can be in the cluster; None if one can.

    The levels on the way do not matter: a cluster may have begun with an older release.
    """
    level = image.features.level(METADATA_VERSION)
    if level < OLDEST_LEVEL:
        return (
            f"the cluster has metadata.version {level}, but kwire needs {OLDEST_LEVEL} (3.9-IV0)"
            " or later; raise it with kafka-features.sh upgrade --release-version 3.9"
        )
    if level > NEWEST_METADATA_VERSION:
        return (
            f"the cluster has metadata.version {level}, but this version of kwire knows those up to"
            f" {NEWEST_METADATA_VERSION} ({NEWEST_METADATA_VERSION_NAME}); use a newer kwire"
        )
    return None
