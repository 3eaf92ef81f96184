"""How sizes and names are put into words, and understood."""
