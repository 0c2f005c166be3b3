"""Documents that compete with a pair's own: which pairs hold against them, which are negatives."""
