"""The ledger: every trial in an Optuna study, in a journal file or a database."""
