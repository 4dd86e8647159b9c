"""Who may do what, and what is told of it.

The way in is `authorizer`: the rules of access control lists; and `operations`: the rights there
are, as bits.
"""
