"""`python -m tuner.door script.py`: run a script of Kernel Tuner through `tuner`."""

import sys

from tuner.door import replacement
from tuner.errors import TunerError
from tuner.measure.process import supervisor

if __name__ == "__main__":
    try:
        supervisor.prepare()  # while Kernel Tuner is imported
        replacement.replace()
        replacement.run(sys.argv[1:])
    except TunerError as error:
        sys.exit(f"{error}")
