"""Side-by-side measurements of Headgate and its peers; `python -m bench --help` tells what it can do."""
