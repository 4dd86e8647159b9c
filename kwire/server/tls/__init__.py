"""TLS on a socket: a transport that encrypts, and handshakes; for listeners and for peers."""
