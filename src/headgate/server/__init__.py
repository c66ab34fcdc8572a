"""The event loop, the connections and the runtime of the coordinator."""
