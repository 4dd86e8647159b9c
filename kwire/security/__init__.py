"""Who may do what, and what is told of it.

The way in is `operations`: the rights there are, as bits.
"""
