"""The verbs of `tune`, one module each, which `app` finds."""
