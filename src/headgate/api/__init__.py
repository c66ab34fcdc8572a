"""One module per API key: message to command, result to message, and the differences between versions."""
