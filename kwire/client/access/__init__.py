"""Who may log in: `users` by SCRAM, who has delegation `tokens`; and who may do what: `acls`."""
