"""The workers that share one search: their threads, the queue of configurations, and when to give up."""
