"""Sockets: listeners, connections, TLS, and a broker's start and stop.

The way in is `server.serve`.  `startup` opens log directories and metadata, `network` accepts
connections and reads and writes frames, `tls` encrypts them.
May import everything but testing (except what `--control` serves), pipeline and cli.
"""
