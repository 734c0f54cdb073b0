"""Metrics for Prometheus and probes for Kubernetes: of one worker, and of the whole cluster."""
