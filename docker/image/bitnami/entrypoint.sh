#!/bin/sh
# The entry point of bitnami/kafka: runs its argument.
exec "$@"
