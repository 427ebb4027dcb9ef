"""The crew: the workers that share one search, the queue of configurations, and the rule for giving up."""
