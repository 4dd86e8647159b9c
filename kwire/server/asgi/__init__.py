"""HTTP for the console: an ASGI application on hypercorn."""
