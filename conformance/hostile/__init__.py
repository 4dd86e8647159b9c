"""Frames that no well-behaved client sends, for a broker that must survive them.

`requests` makes valid requests of every API key and version that a broker says it serves,
`mutations` spoils them, `attack` sends them over many connections. All of it follows from a seed.
"""
