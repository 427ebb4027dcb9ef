"""The version of the package, which is written into files, and the name under which it is installed."""

VERSION = "0.1.0"
DISTRIBUTION = "tuner-gpu"
