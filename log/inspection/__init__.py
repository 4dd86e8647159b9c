"""Looking into the files of a log directory that nobody has open, for `kwire log`."""
