"""Answers to what a connection says again in the same bytes, without decoding it anew.

Each is a `shortcut.Shortcut`; what it cannot answer goes the thorough way through
kwire.requests.routes.
"""
