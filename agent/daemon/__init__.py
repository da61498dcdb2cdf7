"""The daemon: the reconcile loop of each deployment, guarded tasks, shutdown."""
