"""The health of the cluster: rates, history, alerts and the verdict, computed from data already read."""
