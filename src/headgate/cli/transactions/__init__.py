"""`headgate transactions`: look at transactions and end those that hang, by the options of Kafka's tool."""

from headgate.cli.transactions.command import transactions

__all__ = ["transactions"]
