"""`kwire serve --control PORT`: what a test in any language may ask of a broker, over HTTP.

`service` is the broker's side of it, `api` answers requests, `server` speaks HTTP on this machine's
own address.  Nothing of it is imported where it was not asked for.
"""

from __future__ import annotations
