"""CSV reads back as it was written."""

from __future__ import annotations

import csv
import io

from headgate.admin.csv_rows import csv_writer


def test_names_with_any_line_ends_read_back() -> None:
    rows = [["\rvictim", "1"], ["a\rb", "2"], ["a\nb", "3"], ["a\r\n", "4"], ["\n", "5"], ['"', ","]]
    file = io.StringIO(newline="")
    csv_writer(file).writerows(rows)
    assert list(csv.reader(io.StringIO(file.getvalue(), newline=""))) == rows


def test_lines_end_with_a_line_feed() -> None:
    file = io.StringIO(newline="")
    csv_writer(file).writerow(["a", 1])
    assert file.getvalue() == "a,1\n"
