"""Values that all rooms share: identifiers, times, error codes, settings. They have no behaviour."""
