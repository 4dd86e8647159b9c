"""The declarations of metrics, by the sections of docs/metrics.md."""
