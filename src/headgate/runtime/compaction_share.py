"""The share of a busy loop that compaction gets: it grows with the backlog, so that no log grows for ever.

The model: records arrive at a rate r, and compacting one record takes c seconds of the loop. A share s of the
loop compacts s / c records a second. With a constant share a log grows without bound as soon as r exceeds
s / c: with a tenth and 2 us a record, above 50,000 records a second. So the share follows the backlog, and
the backlog settles where s(backlog) = r * c. For every r that half of the loop can process, the backlog stays
below the backlog at which compaction gets half of the loop, plus the records that arrive during one
compaction, which are fewer than that.

The pressure measures the backlog: the log's bytes divided by the bytes that it may reasonably have, which are
its live bytes and forty segments (`headgate.log.backlog`). Up to a pressure of 1 the share is a tenth. So
neither a burst nor the usual growth, where a log is compacted when it has as many new bytes as live ones,
delays requests much. Above 1 the share grows linearly, to a half at a pressure of 3. The log with the highest
pressure counts: with separate shares, many logs of low pressure would delay one of high pressure.

The share never exceeds a half. The disk has to hold any larger backlog until the load falls.
"""

from __future__ import annotations

from typing import Final

LEAST_SHARE: Final = 0.1
MOST_SHARE: Final = 0.5
GROWS_FROM: Final = 1.0
GROWS_UNTIL: Final = 3.0


def share_under(pressure: float) -> float:
    """Return the share of a busy loop, LEAST_SHARE to MOST_SHARE, which never falls as the pressure rises."""
    part = (pressure - GROWS_FROM) / (GROWS_UNTIL - GROWS_FROM)
    return LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * min(max(part, 0.0), 1.0)
