"""Many prompts under one constraint, on any number of machines: files of rows in, files of rows out.

    >>> from guiderail.batch import run_batch
    >>> report = run_batch("rows.csv", "people.csv", Person, BatchOptions(prompt="Describe {name}."), replicas=2)

The input is cut into shards of several rows. Each is answered by one replica and written as a whole under its final
name. So whatever happens (a kill, a crash, a lost machine), a shard is either there, with every row exactly once, or
not there. Repeating the call answers what is left, and what has failed. With one replica, everything happens in this
process. With several, each is an actor of `Ray Data <https://docs.ray.io>`_, on a cluster if one is named. All machines
must see input, output and model under the same path.
"""

from __future__ import annotations

from guiderail.batch.job import BatchOptions
from guiderail.batch.parts import Failure
from guiderail.batch.run import BatchProgress, BatchReport, run_batch

__all__ = ["BatchOptions", "BatchProgress", "BatchReport", "Failure", "run_batch"]
