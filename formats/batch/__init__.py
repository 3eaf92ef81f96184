"""Many conversions in one run: the list of jobs, the processes, and the manifest."""
