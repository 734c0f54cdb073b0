"""The recovery report: what is stuck, what the sweeps will do, and what an operator can do."""
