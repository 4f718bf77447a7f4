"""The loop over a batch of texts, models behind one interface, and how texts are read as they grow."""
