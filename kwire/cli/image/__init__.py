"""The container image: it reads the variables of four images of Kafka, and has their commands.

`dialects` declares what each variable becomes; `translating` turns an environment into settings of
Kafka, `settings` adds the image's defaults, and `start` does the rest of a start: the data folder,
topics, users and scripts.  `tools` has the commands that compose files run: kafka-topics, cub ...
"""
