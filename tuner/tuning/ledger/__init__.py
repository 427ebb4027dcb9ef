"""The ledger: an Optuna study of all trials, in a journal file or a database."""
