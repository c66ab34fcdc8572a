"""The event loop, the connections and the node that is served over them."""
