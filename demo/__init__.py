"""The demo: a year of flights through a broker that is killed halfway, read by three client libraries.

`python -m demo` (run by `make demo`) runs all chapters; `__main__` lists them in order. All output is in
`build/demo/`.
"""
