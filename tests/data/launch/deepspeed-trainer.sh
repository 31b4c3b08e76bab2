#!/bin/bash
# Llama 3 8B with the Trainer of Hugging Face on two nodes.
MODEL=meta-llama/Meta-Llama-3-8B
deepspeed --num_nodes 2 --num_gpus 8 --hostfile hosts.txt train.py \
    --deepspeed deepspeed-zero2-auto.json \
    --model_name_or_path "$MODEL" \
    --per_device_train_batch_size 2 --gradient_accumulation_steps 8 \
    --bf16 --gradient_checkpointing --block_size 4096 \
    --attn_implementation sdpa \
    --learning_rate 2e-5 --lr_scheduler_type cosine --num_train_epochs 3 \
    --dataset_name "$DATA" --output_dir out --save_steps 500 --logging_steps 10
