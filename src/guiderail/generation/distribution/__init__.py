"""Draws from the model's own distribution under a constraint, or from an approximation with a known error.

At each step, a mask removes what is forbidden, and the rest takes its share of the probability. So a beginning that the
model finds likely is written as often as before, even if the model would hardly ever have ended it as the constraint
wants. The text is allowed, but it comes from another distribution than the model's own, conditional on the constraint
(Park et al. 2024, arXiv 2405.21047). These modules correct that, from the bottom up:

| module | contents |
| --- | --- |
| ``reader`` | queries a model about prefixes in any order: what it has read is shared, copied and cut |
| ``tree`` | the prefixes that were read: what the masks leave at each, and what is known to lead nowhere |
| ``outcome`` | the report of a draw: passes, weights, estimates with their error |
| ``exact`` | rejection sampling that remembers what it rejected |
| ``weighted`` | a population of weighted texts: sequential Monte Carlo |
| ``draws`` | from options to generations |
"""
