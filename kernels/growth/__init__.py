"""Growth of boosted trees on integer statistics of their rows.

``grow`` partitions rows, adds up histograms and searches for splits, round by round.
``control`` decides the order of growth on the tables of ``frontier``, with the settings of
``params`` and the ``limits`` of splits; ``levels`` are those of symmetric trees. The host runs it
as it is, alone or between two passes over rows that are elsewhere; a GPU that holds the table runs
blocks that decide the same (``cuda/control``, ``cuda/choosing``, ``cuda/order``) with the functions
of single nodes.

Where one worker has the table in the memory of one device, ``cpu/grow``, ``cpu/sparse`` and
``cuda/grow`` grow batches of trees without returns to Python; else the loop of phases
(``by_phases``) does, with the ``Batch`` of these modules:

    codes            CPU           GPU            workers        workers with GPUs
    Codes            its own       its own        cpu/by_phases  cuda/by_phases
    SparseCodes      cpu/sparse    none           cpu/sparse     none
    StreamedCodes    cpu/streamed  cuda/streamed  none           none

Workers share the rows of a table: each has the tables of nodes for the rows of all, adds up
histograms and counts with the others, takes the same decisions, and moves its own rows. A process
becomes one by ``kernels.runtime.collective.sharing``.

A GPU that holds the table grows symmetric trees by phases too: the host chooses their splits.

To change the order in which nodes are opened, change ``control.comes_before`` alone. ``cuda/order``
relies on it being a strict total order of fields that are final when a node is pushed, in which a
child comes after its parent.

Words:

    frontier    the nodes of all trees of a batch, and what is known of them
    round       splits are chosen, nodes opened, rows moved, and histograms of the children made
    open        to give a node its two children
    pair        the two children of a node: ``build``, whose rows are added up, and ``sibling``,
                whose histogram is what is left of the parent's
    slot        the place of a node's histogram among those that are kept
    recheck     to search a node again, with counts of rows, since its best split left a side with
                fewer than ``min_samples_leaf``
    close       to turn a node that was opened too early into a leaf again, at the end
    line        a histogram that a pass over streamed rows adds up
"""
