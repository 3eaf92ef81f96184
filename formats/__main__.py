"""`python -m formats` is the command `convert`."""

from formats.cli import main

if __name__ == "__main__":
    main()
