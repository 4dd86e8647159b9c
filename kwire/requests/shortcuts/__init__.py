"""Shortcuts: answer a request that a connection repeats, without decoding it again.

Each is a `shortcut.Shortcut`.  A request that it cannot answer goes to its handler
(kwire.requests.routes) as usual.
"""
