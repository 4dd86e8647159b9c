"""Checks and prints the files of a log directory that no broker uses, for `kwire log`."""
