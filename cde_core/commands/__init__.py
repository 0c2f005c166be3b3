"""The commands of `cde-train`, one function each; cli.py offers them."""
