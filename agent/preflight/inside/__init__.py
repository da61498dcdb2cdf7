"""Programs that run where an engine will: Python 3.8 and its own library alone, since an image may have no more."""
