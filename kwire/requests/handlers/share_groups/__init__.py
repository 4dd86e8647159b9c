"""Shared by the handlers of share groups: initialize, delete and list the state of a group."""
