"""The coordinators, sans I/O: values in, values out. No clock, no sockets, no disk, no randomness."""
