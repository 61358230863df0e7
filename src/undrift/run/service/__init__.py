"""The service of a run: a stream, the journal of what it was asked and told, and the folder of both."""
