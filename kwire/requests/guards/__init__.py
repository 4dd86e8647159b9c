"""Guards: check the rights of a request's sender before the handler runs.

A guard removes from a request what its sender may not do, lets the handler do the rest, and adds
the refusals to the response.  Only a broker with an authorizer calls guards; on any other broker a
request goes straight to its handler.

A request that needs one right on one resource has the guard of `whole`.  The handler's module of
any other API key has a function `guard`, below its line "-- rights".  This package has what they
share.  Start with `base`.
"""
