"""The broker's side of kwire.testing: faults, traces, snapshots and the HTTP control."""
