"""The pages of the console: each module declares `PAGES` (see `kwire.console.site`)."""
