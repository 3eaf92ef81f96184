"""How files take the places of others, all or none."""
