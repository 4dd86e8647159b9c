"""Client connections: accepting them, reading requests, sending replies, and their limits.

The entry point is `listener.ConnectionServer`, which makes a `connection.Connection` of each
accepted socket.
"""
