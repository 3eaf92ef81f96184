"""What stays undecoded until somebody reads it."""
