"""`kwire mcp`: a cluster for an assistant, over the Model Context Protocol.

Each module has the tools for one subject, as methods whose signatures and docstrings the assistant
reads.  They call what the console's pages call.  `serving` puts the tools together, `tools` says
what a tool is, and `answers` bounds what it returns.
"""
