"""What a log remembers of its producers: idempotence, transactions, snapshots.

The way in is `state.ProducerStateManager`.
"""
