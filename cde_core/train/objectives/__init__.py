"""What training lowers: each objective a file, a function of the vectors of a batch."""
