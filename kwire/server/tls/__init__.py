"""Bytes inside TLS on a socket, and handshakes; for listeners and for peers."""
