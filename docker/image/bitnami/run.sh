#!/bin/sh
exec /etc/kafka/docker/run
