"""The handlers of requests: one module per API key, with its name (kwire.requests.routes).

The way in of each is `handle(broker, request, context)`.
"""
