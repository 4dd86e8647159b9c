"""The console: pages in a browser that show a Kafka cluster, for `kwire console`.

It works with any Kafka, because it uses `kwire.client` only.  The pages are made by the server; a
few small modules in `static/` add what a page cannot do alone, such as a live tail.

A page is one module in `views/` with its `PAGES`, and one template in `templates/`.  The parts:
`site` (what a page is, and what a view gets), `app` (all pages as one ASGI application), `security`
(who may ask), `pool` (blocking calls of the client in threads), `listing` (filter, sort and pages
of a table), `text` (values as text that is safe to show) and `serving` (the HTTP server).
"""
