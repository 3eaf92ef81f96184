"""What families of operators share: specs, rules and rewritings."""
