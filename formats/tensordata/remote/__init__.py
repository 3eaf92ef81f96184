"""Files in stores and on web servers."""
