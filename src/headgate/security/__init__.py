"""Principals, resources, operations and the access policy's protocol. There is no I/O here."""
