#!/bin/bash
# A model of 32 layers on eight GPU nodes, with a shape of its own.
#SBATCH --nodes=8
export RUN_NAME="wide-$(date +%F)"
export XLA_FLAGS="--xla_gpu_enable_latency_hiding_scheduler=true"
NODES=8
srun python3 -m MaxText.train MaxText/configs/base.yml run_name=$RUN_NAME hardware=gpu \
    base_emb_dim=4096 base_num_query_heads=32 base_num_kv_heads=8 base_mlp_dim=14336 \
    base_num_decoder_layers=32 head_dim=128 vocab_size=128256 \
    dcn_data_parallelism=$NODES ici_fsdp_parallelism=4 ici_tensor_parallelism=2 \
    per_device_batch_size=1 max_target_length=4096 gradient_accumulation_steps=2 \
    attention=cudnn_flash_te remat_policy=minimal_with_context quantization=fp8 \
    steps=50 dataset_type=synthetic enable_checkpointing=False profiler=xplane
