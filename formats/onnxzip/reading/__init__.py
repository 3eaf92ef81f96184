"""Reading archives: directory, entries, graph."""
