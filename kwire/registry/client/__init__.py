"""A schema registry over HTTP, and records that begin with the ids of its schemas.

`rest.RegistryClient` has the REST interface of Confluent's registry, which Karapace and Apicurio
have as well.  `registered.RegisteredSchemas` keeps the schemas of records that are read, and
`serializing.RecordSerializer` writes records as Confluent's serializers do.
"""
