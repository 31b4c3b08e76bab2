#!/bin/bash
# Llama 3.1 70B in FP8 on one node.
MODEL=meta-llama/Llama-3.1-70B-Instruct
exec vllm serve "$MODEL" \
    --tensor-parallel-size 4 --data-parallel-size=2 \
    --quantization fp8 --kv-cache-dtype fp8 \
    --max-num-seqs 256 --max-num-batched-tokens 8192 \
    --gpu-memory-utilization 0.92 --max-model-len 16384 \
    --no-enable-prefix-caching --disable-log-requests \
    --host 0.0.0.0 --port "${PORT}"
