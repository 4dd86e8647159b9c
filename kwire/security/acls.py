"""What the requests about ACLs have in common while no authorizer can be configured.

Kafka's words differ: DescribeAcls is answered by a broker, the other two by its controller.
"""

from __future__ import annotations

from typing import Final

from kwire.context import InvalidFrame

UNKNOWN: Final = 0
"""The code in every one of Kafka's enums of ACLs that stands for what its reader does not know."""

NO_AUTHORIZER_ON_BROKER: Final = "No Authorizer is configured on the broker"
NO_AUTHORIZER: Final = "No Authorizer is configured."


def require_known(request: str, *codes: int) -> None:
    """Refuse what the client itself calls unknown: Kafka does not read such a request.

    Codes that Kafka has no meaning for are not refused here.
    """
    if UNKNOWN in codes:
        raise InvalidFrame(f"{request} contains UNKNOWN elements")
