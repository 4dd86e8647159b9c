"""Access control: SCRAM `users`, delegation `tokens`, and access control lists (`acls`)."""
