"""Which configuration next: the valid ones, and the strategies that choose among them."""
