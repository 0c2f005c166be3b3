"""Where texts are embedded and corpora searched: in this process, or on a cluster of machines."""
