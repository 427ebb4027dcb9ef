"""`python -m tuner` is `tune`."""

import gc
import sys


def main() -> None:
    """The command line, or one line that says what it lacks: a launch needs less than tuning does."""
    try:
        from tuner.cli.app import main as run
    except ModuleNotFoundError as missing:
        sys.exit(
            f"error: the command line needs {missing.name}, which is not installed; install tuner with its dependencies"
        )
    try:
        run()
    finally:
        gc.freeze()  # otherwise Python looks through all objects for garbage before it ends


if __name__ == "__main__":
    main()
