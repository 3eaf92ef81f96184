"""`python -m formats` is the command `formats`."""

from formats.cli import formats

if __name__ == "__main__":
    formats()
