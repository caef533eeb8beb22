"""What writes into a tensor or array that is there already, beside what else is in it."""

from __future__ import annotations

#: Methods of tensors.
METHODS = frozenset(
    """add_ sub_ mul_ div_ lerp_ addcmul_ addcdiv_ index_add_ index_copy_ index_put_ scatter_ scatter_add_ put_
    masked_scatter_""".split()
)
#: Functions of NumPy, of their first argument: `numpy.add.at(counts, labels, 1)`.
FUNCTIONS = frozenset("at put place putmask copyto".split())
#: Functions that put something into a list, by its order.
OF_LISTS = frozenset("heappush heappushpop heapreplace insort insort_left insort_right".split())
