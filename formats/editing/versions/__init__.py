"""A model in other versions of its operator sets, or in another IR version: nodes in the form of each version."""
