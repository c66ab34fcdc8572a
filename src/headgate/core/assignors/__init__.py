"""The server-side assignors of consumer groups: pure functions from a group to its target assignment.

`ASSIGNORS` has them by name, the default one first.
"""

from collections.abc import Mapping
from types import MappingProxyType

from headgate.core.assignors.contract import Assignor
from headgate.core.assignors.ranges import assign_ranges
from headgate.core.assignors.uniform import assign_uniformly

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": assign_uniformly, "range": assign_ranges})
