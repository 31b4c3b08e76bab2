# Mixtral on two devices, others left free.
trtllm-serve mistralai/Mixtral-8x7B-Instruct-v0.1 --tp_size 2 --max_batch_size 128 \
    --max_num_tokens 4096 --kv_cache_free_gpu_memory_fraction 0.85 --enable_chunked_prefill
