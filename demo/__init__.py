"""The main job: a year of flights through a broker that is killed half-way, read by three client libraries.

`python -m demo` (what `make demo` runs) tells the story from beginning to end; `__main__` is its table of
contents. Everything it makes stands in `build/demo/`.
"""
