"""Values that every room shares: identifiers, times, error codes, settings. No behaviour lives here."""
