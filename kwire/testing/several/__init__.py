"""A cluster of brokers in a test's hands, each with faults of its own: `cluster` has it whole,
`faults` what befalls requests at all of them, `traces` what all were asked, in one order."""

from __future__ import annotations
