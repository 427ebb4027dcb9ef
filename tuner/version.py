"""The version of the package, which is written into files."""

VERSION = "0.1.0"
