"""Files of this system."""
