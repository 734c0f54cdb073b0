"""The overview: how the cluster is, in words, curves and numbers."""
