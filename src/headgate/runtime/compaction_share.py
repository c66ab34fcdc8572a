"""How much of a busy loop compaction gets: more the more there is to do, so that no log grows for ever.

The model. Records come at a rate r, and to compact one takes c seconds of the loop. With a share s of the
loop s / c records a second are compacted. A share that never changes lets the log grow without end as soon as
r is above s / c: at a tenth and 2 us a record, above 50,000 records a second. So the share follows the
backlog, and the backlog settles where s(backlog) = r * c. For any r that half of the loop is enough for, that
is below the backlog at which half of the loop is given, and what comes while one compaction lasts: less than
as much again.

How large a backlog is, its pressure tells: its bytes by those that a log may well hold, which is what is live
and forty segments (`headgate.log.backlog`). Up to a pressure of one the share is a tenth. A burst then costs
those who wait for answers next to nothing; and as a log is compacted when as much is new as is live, so it is
on any day. From there the share grows in proportion, to a half at three. The worst log counts: with a share
of its own for each, many that are well would hold up one that is not.

More than a half it never is: what outruns that the disk has to hold until there is some rest.
"""

from __future__ import annotations

from typing import Final

LEAST_SHARE: Final = 0.1
MOST_SHARE: Final = 0.5
GROWS_FROM: Final = 1.0
GROWS_UNTIL: Final = 3.0


def share_under(pressure: float) -> float:
    """The share of a busy loop, from LEAST_SHARE to MOST_SHARE; it never falls as the pressure rises."""
    part = (pressure - GROWS_FROM) / (GROWS_UNTIL - GROWS_FROM)
    return LEAST_SHARE + (MOST_SHARE - LEAST_SHARE) * min(max(part, 0.0), 1.0)
