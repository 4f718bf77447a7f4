"""From the keywords of a schema object to its normal form."""
