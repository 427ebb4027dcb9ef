"""`python -m tuner.door script.py`: run a script of Kernel Tuner through `tuner`."""

import signal
import sys

from tuner.door import replacement
from tuner.errors import TunerError
from tuner.measure.process import preparation

INTERRUPTED = "tuner: interrupted; run the script again to continue: what was measured is kept"

if __name__ == "__main__":
    try:
        preparation.prepare()  # while Kernel Tuner is imported
        replacement.replace()
        replacement.run(sys.argv[1:])
    except TunerError as error:
        sys.exit(f"{error}")
    except KeyboardInterrupt:
        print(INTERRUPTED, file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
