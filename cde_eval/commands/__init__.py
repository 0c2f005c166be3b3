"""The commands of `cde-eval`, one function each; cli.py offers them."""
