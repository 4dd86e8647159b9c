"""What all commands of the command line have in common: groups, former names, asking."""
