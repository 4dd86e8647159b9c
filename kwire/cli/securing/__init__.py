"""Commands about who may come in: certificates, a broker that is secured, a check of settings."""
