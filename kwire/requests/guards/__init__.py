"""What a request must be allowed to do, asked before its handler is.

A guard takes out of a request what its sender may not do, has the handler do the rest, and puts the
refusals into the answer.  Only a broker with an authorizer calls guards: of all the others requests
go straight to the handlers, which know nothing of this.  The way in is `base`.
"""
