"""Two runs or more: what differs in inputs, results and causes."""
