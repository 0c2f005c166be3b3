"""Where training pairs come from: sources of rows, and pairs on disk."""
