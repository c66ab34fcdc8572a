"""The persisted record types and their versioned binary codec: the contract with disk and with Spark."""
