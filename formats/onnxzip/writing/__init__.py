"""Writing archives, and changing them in place."""
