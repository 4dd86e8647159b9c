"""`python -m kwire.conformance.bench.spark`: measures the rates of reads and writes."""

from __future__ import annotations

from kwire.conformance.bench.spark.throughput import main

if __name__ == "__main__":
    main()
