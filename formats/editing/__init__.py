"""Edits: functions from a model to a new one, which shares the sources of the weights and changes nothing given."""
