"""Models of other packages: made into ours, and made of ours."""
