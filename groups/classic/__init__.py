"""Groups of the classic protocol: their members agree among themselves (JoinGroup, SyncGroup).

The way in is `group.ClassicGroup`.
"""
