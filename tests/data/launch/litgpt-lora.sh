#!/bin/bash
# Adapters of Llama 3.1 8B with the configuration next to this script.
MODEL=meta-llama/Llama-3.1-8B
litgpt download $MODEL
litgpt finetune_lora $MODEL \
    --config litgpt-lora.yaml \
    --devices 8 --train.micro_batch_size 4 \
    --data JSON --data.json_path "data/$(date +%F).json"
