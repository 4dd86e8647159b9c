"""The pages of the console.

Each module declares `PAGES` (see `kwire.console.site`), and perhaps `BACKGROUND`: functions of the
site that run as long as the console does.
"""
