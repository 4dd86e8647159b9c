"""The server around a broker: its start and stop, listeners, connections, and TLS.

The entry point is `server.serve`.  `startup` opens log directories and metadata.  `network` accepts
connections, reads requests and writes replies.  `tls` encrypts connections.

tests/test_layering.py states what its rooms may import.
"""
