"""The broker setting for groups that change their protocol."""

from __future__ import annotations

import pytest

from kwire.coordinators.runtime.groups import limits_of
from kwire.groups.limits import MigrationPolicy
from kwire.settings import BrokerConfig


@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade", "bidirectional"])
def test_migration_policy_is_read_in_any_case(policy: str) -> None:
    wanted = MigrationPolicy[policy.upper()]
    for spelled in (policy, policy.upper(), policy.title()):
        config = BrokerConfig({"group.consumer.migration.policy": spelled})
        assert limits_of(config).group_consumer_migration_policy is wanted
    assert (
        limits_of(BrokerConfig()).group_consumer_migration_policy is MigrationPolicy.BIDIRECTIONAL
    )
