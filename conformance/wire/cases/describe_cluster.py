"""Cases of DescribeCluster: the brokers of the cluster."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_cluster import DescribeClusterRequest
from kwire.conformance.wire.case import Cases

case = Cases(ApiKey.DESCRIBE_CLUSTER)


def access_request(version: int, topic_id: bytes) -> DescribeClusterRequest:
    return DescribeClusterRequest(True)


case.requests(
    {
        "brokers": lambda stage: DescribeClusterRequest(),
        "authorized operations": lambda stage: DescribeClusterRequest(True),
    }
)
case.requests(
    {
        "controllers": lambda stage: DescribeClusterRequest(endpoint_type=2),
        "endpoints of no kind": lambda stage: DescribeClusterRequest(endpoint_type=0),
        "endpoints that do not exist": lambda stage: DescribeClusterRequest(endpoint_type=3),
    },
    since=1,
)
case.requests(
    {"fenced brokers": lambda stage: DescribeClusterRequest(include_fenced_brokers=True)}, since=2
)
