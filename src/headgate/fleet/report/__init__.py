"""A report on all groups as one HTML file: what is remarkable, and how commits, lag and members went.

from headgate.fleet.report import gather, page

Path("report.html").write_text(page(gather(spark, "127.0.0.1:9092")))
"""

from headgate.fleet.report.gather import Report, gather
from headgate.fleet.report.page import page

__all__ = ["Report", "gather", "page"]
