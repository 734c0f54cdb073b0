"""The recovery screen: tasks and workflows that are stuck, what the sweeps will do, and what an operator can do."""
