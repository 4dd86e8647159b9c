"""What a cluster is like: a survey of its brokers, its quorum of controllers, and its health."""
