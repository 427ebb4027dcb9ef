"""`python -m tuner` is `tune`."""

from tuner.cli import main

if __name__ == "__main__":
    main()
