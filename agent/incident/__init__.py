"""Evidence: what belongs to which verdict, the bundle, retention."""
