"""Experiments on encoders: a question, a loop, a tidy table of what was found. One per file."""
