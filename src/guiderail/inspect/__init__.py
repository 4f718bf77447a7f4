"""Shows what happened inside a generation: what was allowed at each token, what the model wanted, and why it wrote
what it wrote.

:func:`record` generates and watches. :func:`replay` reads a given text under a constraint. Both return a
:class:`Record`; :func:`page` shows it as an HTML page, and ``to_json`` exports it.
"""

from guiderail.inspect.page import page, page_headers
from guiderail.inspect.place import Place
from guiderail.inspect.record import Candidate, Record, Recorder, Step, Weights, record, replay, weigh
from guiderail.inspect.where import Source, Where

__all__ = [
    "Candidate",
    "Place",
    "Record",
    "Recorder",
    "Source",
    "Step",
    "Weights",
    "Where",
    "page",
    "page_headers",
    "record",
    "replay",
    "weigh",
]
