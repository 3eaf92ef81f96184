"""What a format is to the rest of the package, and which format a file has."""
