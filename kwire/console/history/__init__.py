"""What happened in the last hour: rates, lag, sizes and latency, sampled each five seconds.

`series` keeps the values, `sampler` asks the cluster for them, and `scrape` reads the latencies
from metrics endpoints.
"""

from __future__ import annotations
