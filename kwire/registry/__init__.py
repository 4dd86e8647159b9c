"""A schema registry with the REST interface of Confluent's, beside any Kafka cluster."""
