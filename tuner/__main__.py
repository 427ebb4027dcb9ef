"""The command line: `python -m tuner` is the same as `tune`."""

import gc
import sys


def main() -> None:
    """Run the command line. If one of its dependencies is missing, which a launch may not need, exit with one line."""
    gc.set_threshold(10_000, 20, 20)  # little of what importing makes is garbage
    try:
        from tuner.cli.app import main as run
    except ModuleNotFoundError as missing:
        sys.exit(
            f"error: the command line needs {missing.name}, which is not installed; install tuner with its dependencies"
        )
    try:
        run()
    finally:
        gc.freeze()  # a faster exit: without it, the interpreter's last garbage collection visits every object


if __name__ == "__main__":
    main()
