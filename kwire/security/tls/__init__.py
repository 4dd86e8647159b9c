"""TLS by Kafka's `ssl.*` settings, for servers and clients.

Start with `options.read_options`; `context` makes an `ssl.SSLContext` from the options.  Nothing
here depends on a broker, and nothing is imported unless TLS is used.
"""
