"""The connections, the listener and the node that serves them on the event loop."""
