"""The sections of a recipe, each with every field explained and checked."""
