"""A small Kafka-protocol client, blocking, for the command line and for Spark."""
