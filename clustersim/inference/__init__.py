"""Inference: what a step of an engine costs, and what a replica holds.

    model, layout, formats --layers--> products, attention, passes --device--> seconds
    placement ----------------------> collectives -----------------> seconds
    weights, KV pool, buffers ------> memory and its verdict

The requests that make up a batch, and their queue, belong to `engine`.
"""
