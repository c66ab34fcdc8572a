"""The server-side assignors of consumer groups: pure functions from a group to its members' targets."""
