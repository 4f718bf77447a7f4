"""``python -m guiderail``: the command line."""

from guiderail.cli import main

if __name__ == "__main__":
    main()
