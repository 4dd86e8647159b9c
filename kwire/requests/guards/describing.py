"""Shared by the guards of requests that describe groups, of any type."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

from kwire.cluster.metadata.acls import AclOperation, ResourceType
from kwire.codecs.errors import ErrorCode
from kwire.requests.guards.base import Access, Request, Response
from kwire.security.operations import GROUP_OPERATIONS

Group: TypeAlias = Any
"""A described group in the response of the request's API key."""
GROUP, TOPIC = ResourceType.GROUP, ResourceType.TOPIC
TOPICS_HIDDEN: Final = (
    "The group has described topic(s) that the client is not authorized to describe."
)


def split_groups(
    access: Access, group_ids: Sequence[str], described: Callable[..., Group]
) -> tuple[list[str], list[Group]]:
    """Return the groups that the sender may describe, and the answers about the others.

    `described` makes the answer about a group, from `error_code` and `group_id`.
    """
    allowed, denied = access.split(AclOperation.DESCRIBE, GROUP, group_ids, str)
    error = ErrorCode.GROUP_AUTHORIZATION_FAILED
    return allowed, [described(error_code=error, group_id=group_id) for group_id in denied]


def may_know(access: Access, topic_names: Collection[str]) -> bool:
    """Whether the sender may describe all these topics.

    A client may not subscribe to other topics, nor see the members of a group that does.
    """
    permitted = access.permitted(AclOperation.DESCRIBE, TOPIC, topic_names)
    return len(permitted) == len(set(topic_names))


def completing_response(
    access: Access,
    request: Request,
    refused: Sequence[Group],
    names_of: Callable[[Group], set[str]],
) -> Callable[[Response], Response]:
    """A function that completes the handler's response for the sender.

    It adds authorized operations if the request wants them, hides the members of groups with topics
    (those of `names_of`) that the sender may not describe, and puts the `refused` groups first.
    """

    def shape(response: Response) -> Response:
        """Complete the handler's response in place and return it."""
        if request.include_authorized_operations:
            add_operations(access, response.groups)
        for group in response.groups:
            _hide_members(access, group, names_of(group))
        response.groups = [*refused, *response.groups]
        return response

    return shape


def add_operations(access: Access, groups: Sequence[Group]) -> None:
    """Set the operations that the sender may do on each group that has no error."""
    for group in groups:
        if group.error_code == ErrorCode.NONE:
            group.authorized_operations = access.authority.operations(
                access.context, GROUP_OPERATIONS, GROUP, group.group_id
            )


def _hide_members(access: Access, group: Group, names: set[str]) -> None:
    """Refuse to describe a group with topics, `names`, that the sender may not describe."""
    if not may_know(access, sorted(names)):
        group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        group.error_message = TOPICS_HIDDEN
        group.members = []
