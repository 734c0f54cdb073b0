"""How the cluster is: rates, history, alerts and the verdict, made of what was read, without a widget or a query."""
