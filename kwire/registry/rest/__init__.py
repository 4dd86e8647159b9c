"""The REST interface of Confluent's registry: paths, JSON bodies and error codes.

`app` is the application.  `looking` has the functions that read, `changing` those that write;
each gets a `Call` and returns what becomes JSON.
"""
