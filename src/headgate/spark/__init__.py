"""The PySpark pipeline."""
