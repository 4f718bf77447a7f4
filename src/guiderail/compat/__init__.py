"""Other engines' interfaces over guiderail: an engine or a script changes one import.

``guiderail.compat.xgrammar`` for ``xgrammar``, ``guiderail.compat.llguidance`` for ``llguidance``: the same names,
arguments and answers, where those are right. What a constraint means is guiderail's, exact; an option of the other
library is done as it says, or refused with the reason, and never passed over.
"""
