"""Commands about security: certificates, tokens, secured brokers, and a check of settings."""
