"""What the broker that controls the cluster decides: topics and settings.

A decision is a list of changes (kwire.metadata.changes) or a Refusal; the store makes them true.
"""
