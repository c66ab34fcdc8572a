"""Who asks, and what they may do: values and one protocol, without I/O."""
