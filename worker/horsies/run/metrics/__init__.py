"""What Prometheus scrapes and Kubernetes probes: of one worker, and of the whole cluster."""
