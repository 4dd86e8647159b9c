"""Handles requests: from a decoded message to its response.

`route_table` is the only list of API keys; `make generated` writes it from the handlers' routes.
The entry point is `routes.bind`.  A request passes its guard, which checks the sender's rights
(`guards`), and then its handler (`handlers`, one module per API key).  `shortcuts` answers requests
that a connection repeats with almost the same bytes.

tests/test_layering.py states what its rooms may import.
"""
