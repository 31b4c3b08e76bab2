#!/bin/bash
# Llama 3 8B on nodes of eight devices.
#SBATCH --job-name=llama3-8b
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
set -euo pipefail
export CUDA_DEVICE_MAX_CONNECTIONS=1

GPUS_PER_NODE=8
NNODES=${SLURM_NNODES:-1}
WORLD_SIZE=$((GPUS_PER_NODE * NNODES))
TP=${TP:-2}
PP=1
SEQ=8192
GLOBAL_BATCH=$((WORLD_SIZE / TP * 8))

DISTRIBUTED_ARGS=(
    --nproc_per_node "$GPUS_PER_NODE"
    --nnodes "$NNODES"
    --rdzv_endpoint "$MASTER_ADDR:6000"   # known when the job runs
)

MODEL_ARGS=(
    --num-layers 32 --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention --num-query-groups 8
    --seq-length $SEQ --max-position-embeddings $SEQ
    --position-embedding-type rope --rotary-base 500000
    --normalization RMSNorm --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0 --hidden-dropout 0.0
)

TRAINING_ARGS="
    --micro-batch-size 1 --global-batch-size $GLOBAL_BATCH
    --train-iters 1000 --lr 3e-4 --lr-decay-style cosine --clip-grad 1.0
    --bf16 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
"
DATA_ARGS="--data-path $DATA --tokenizer-type HuggingFaceTokenizer --tokenizer-model llama3 --vocab-size 128256"

srun --ntasks-per-node=1 torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    --tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size $PP \
    --sequence-parallel \
    "${MODEL_ARGS[@]}" \
    $TRAINING_ARGS \
    $DATA_ARGS \
    --save "$(date +%F)" --save-interval 500 --log-interval 10 2>&1 | tee log.txt
