"""The names of the verbs of `tune`, besides `tune KERNEL SIZE`."""

VERBS = (
    "best", "check", "compare", "cover", "devices", "evaluate", "explain", "export", "failures", "history", "import",
    "list", "merge", "missed", "new", "pull", "push", "record", "replay", "report", "reproduce", "run", "schema",
    "show", "validate", "verify",
)  # fmt: skip
