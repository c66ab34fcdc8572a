"""A small blocking client of the Kafka protocol, for the Admin API, the command line and Spark."""
