"""The overview screen: the state of the cluster as a verdict, queues, alerts and charts."""
