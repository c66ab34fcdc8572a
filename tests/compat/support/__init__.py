"""What the compatibility tests share: a driver for each client library, and members in processes."""
