"""Membership in a group: by the classic or the consumer protocol (KIP-848), or in a share group.

`membership` has the interface that the consumer uses; `subscription` has the messages that members
of the classic protocol send each other.
"""
