"""Movement of data: sharded weights and gradients, copies to the host, stage transfers."""
