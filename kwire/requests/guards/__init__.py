"""Guards: check the rights of a request's sender before the handler runs.

A guard removes from a request what its sender may not do, lets the handler do the rest, and adds
the refusals to the response.  Only a broker with an authorizer calls guards; on any other broker a
request goes straight to its handler.  Start with `base`.
"""
