"""Cases of DescribeAcls on a broker without an authorizer."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.describe_acls import DescribeAclsRequest
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import ANY, LITERAL, TOPIC

case = Cases(ApiKey.DESCRIBE_ACLS)


def access_request(version: int, topic_id: bytes) -> DescribeAclsRequest:
    return DescribeAclsRequest(2, "no-such", 3, None, None, 1, 1)


case.requests(
    {
        "all there are": lambda stage: DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY),
        "those of a topic": lambda stage: DescribeAclsRequest(
            TOPIC, "wire", LITERAL, "User:alice", "*", ANY, ANY
        ),
        "codes without a meaning": lambda stage: DescribeAclsRequest(99, "", 99, "", "", 99, -1),
        "an unknown resource type": lambda stage: DescribeAclsRequest(
            operation=ANY, permission_type=ANY
        ),
        "an unknown pattern type": lambda stage: DescribeAclsRequest(
            ANY, None, 0, None, None, ANY, ANY
        ),
        "an unknown operation": lambda stage: DescribeAclsRequest(
            ANY, None, ANY, None, None, 0, ANY
        ),
        "an unknown permission": lambda stage: DescribeAclsRequest(
            ANY, None, ANY, None, None, ANY, 0
        ),
    }
)
