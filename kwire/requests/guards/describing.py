"""What the guards of requests do alike that ask after groups, of whatever kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.requests.guards.base import Access, Request, Response
from kwire.security.operations import GROUP_OPERATIONS

Group: TypeAlias = Any
"""As the answer of the request's key describes one."""
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
TOPICS_HIDDEN: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def may_know(access: Access, topic_names: Collection[str]) -> bool:
    """Whether the sender may know all of them: nobody may subscribe to others, or see who does."""
    permitted = access.permitted(AclOperation.DESCRIBE, TOPIC, topic_names)
    return len(permitted) == len(set(topic_names))


def telling(
    access: Access,
    request: Request,
    refused: Sequence[Group],
    names_of: Callable[[Group], set[str]],
) -> Callable[[Response], Response]:
    """Shapes a handler's answer: the refused groups first; what may be done to the others, if it
    was asked; and no member of a group with topics, by `names_of`, that the sender may not know.
    """

    def shape(response: Response) -> Response:
        if request.include_authorized_operations:
            tell_operations(access, response.groups)
        for group in response.groups:
            _hide_unknown_topics(access, group, names_of(group))
        response.groups = [*refused, *response.groups]
        return response

    return shape


def tell_operations(access: Access, groups: Sequence[Group]) -> None:
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = access.authority.operations(
                access.context, GROUP_OPERATIONS, GROUP, group.group_id
            )


def _hide_unknown_topics(access: Access, group: Group, names: set[str]) -> None:
    if not may_know(access, sorted(names)):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = TOPICS_HIDDEN
        group.members = []
