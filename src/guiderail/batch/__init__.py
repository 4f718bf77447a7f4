"""Many prompts under one constraint, on as many machines as there are: files of rows in, files of rows out.

    >>> from guiderail.batch import run_batch
    >>> report = run_batch("rows.csv", "people.csv", Person, BatchOptions(prompt="Describe {name}."), replicas=2)

The input is cut into shards of some rows. Each is answered by one replica and written as a whole under its final
name, so whatever happens (a kill, a crash, a lost machine) a shard is either there, with every row of it once, or not
there; the same call again does what is left, and what has failed. With one replica everything happens in this process;
with several, each is an actor of `Ray Data <https://docs.ray.io>`_, of a cluster if one is named. Input, output and
model must be in a place that all machines see under the same path.
"""

from __future__ import annotations

from guiderail.batch.job import BatchOptions
from guiderail.batch.parts import Failure
from guiderail.batch.run import BatchProgress, BatchReport, run_batch

__all__ = ["BatchOptions", "BatchProgress", "BatchReport", "Failure", "run_batch"]
