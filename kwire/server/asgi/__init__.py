"""HTTP for what is no broker: the console and the schema registry."""
