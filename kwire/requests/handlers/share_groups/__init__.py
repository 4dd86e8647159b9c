"""What several handlers of share groups do: initialize, forget and list the offsets of a group."""
