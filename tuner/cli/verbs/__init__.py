"""The verbs of `tune`, a module each. `app` finds a verb by the name of its module."""
