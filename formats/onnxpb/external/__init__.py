"""External data: where it may be, how it is laid out, and who else uses it."""
