"""Rewrites operators that RTen lacks, or has in another form, to those that it runs; one module a theme."""
