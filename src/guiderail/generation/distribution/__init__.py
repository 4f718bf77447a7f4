"""Draws from the model's own distribution under a constraint, and from an approximation that has a known error.

A mask takes from each step what is forbidden, and what is left takes its place. So a beginning that the model finds
likely is written as often as before, even if the model would hardly ever have ended it as the constraint wants. The
text is allowed, and drawn from another distribution than the model's own, given the constraint (Park et al. 2024,
arXiv 2405.21047). The modules mend this, from below:

| module | what |
| --- | --- |
| ``reader`` | a model that is asked for prefixes in any order: what it has read is shared, copied and cut |
| ``tree`` | the prefixes that were read: what the masks leave at each, and what is known to lead nowhere |
| ``outcome`` | what a draw says about itself: passes, weights, estimates with their error |
| ``exact`` | rejection that forgets nothing |
| ``weighted`` | a population of texts with weights: sequential Monte Carlo |
| ``draws`` | from options to generations |
"""
