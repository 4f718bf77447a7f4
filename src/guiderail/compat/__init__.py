"""The interfaces of other engines over guiderail: change one import in an engine or a script.

``guiderail.compat.xgrammar`` stands in for ``xgrammar``, ``guiderail.compat.llguidance`` for ``llguidance``. Names,
arguments and results are the same, except where the other library is wrong. Constraints mean what they mean in
guiderail, exactly. An option of the other library either does what it says or is rejected with the reason; none is
ignored.
"""
