"""Where tasks come from: mteb, folders, and the built-in documentation tasks."""
