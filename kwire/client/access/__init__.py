"""Who may log in: `users` by SCRAM, and who has one of the delegation `tokens`."""
