"""Share groups in the simulation: the whole node on a simulated disk, members that fail, and a model."""
