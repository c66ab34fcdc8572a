"""Side-by-side measurements of Headgate and its peers; see `python -m bench --help`."""
