"""What each request is answered: one module an API key, found by its name (kwire.requests.routes).

The way in of each is `handle(broker, request, context)`.
"""
