"""One module an API key: message to command, result to message, and the quirks of each version."""
