"""Commands about who may come in: certificates, brokers that are secured, a check of settings."""
