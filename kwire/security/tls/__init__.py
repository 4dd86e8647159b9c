"""TLS by Kafka's `ssl.*` settings, for whoever serves or connects.

The way in is `options.read_options`, whose options `context` makes an `ssl.SSLContext` of.  Nothing
here knows a broker, and nothing is imported before somebody wants TLS.
"""
