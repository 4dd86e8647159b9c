"""What all commands have in common: groups, former names, number ranges, questions, statuses."""
