"""What `verify` checks in a model: its nodes, its parts, and the versions that it states."""
