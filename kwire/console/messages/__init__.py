"""The records of a topic: a page of them, a search through many, and those that arrive.

It is sync code without HTTP.  `query` is what the URL says, `expression` the language of filters.
"""
