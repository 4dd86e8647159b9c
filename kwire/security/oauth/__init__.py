"""Signed OAUTHBEARER tokens: the keys that sign them, and the claims that they must have.

Start with `listener.signed_tokens`.
"""
