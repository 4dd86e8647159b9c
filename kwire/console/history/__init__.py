"""What happened in the last hour: rates, lag, sizes and latency, sampled each five seconds.

`series` keeps the values, and `sampler` asks the cluster and metrics endpoints for them.  What the
endpoints tell of now is read by `in_flight` and `observed`.
"""

from __future__ import annotations
