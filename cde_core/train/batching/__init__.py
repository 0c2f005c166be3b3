"""From pairs to batches: who is whose neighbour, who stands with whom, and what counts."""
