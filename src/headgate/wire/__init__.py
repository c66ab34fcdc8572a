"""Kafka's frames and messages."""
