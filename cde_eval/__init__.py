"""How well a text encoder does, and what context buys it."""
