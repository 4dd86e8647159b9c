"""Tokens of OAUTHBEARER that somebody has signed: whose keys are good, and what a token must say.

The way in is `keys_of` (key_source.py), for listeners that are told where the keys are.
"""
