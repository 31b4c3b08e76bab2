#!/bin/bash
# Llama 3 70B of the registry on eight nodes, with other degrees.
#SBATCH --nodes=8
#SBATCH --gpus-per-node=8
NGPU=8
srun torchrun --nnodes $SLURM_NNODES --nproc_per_node $NGPU --rdzv_backend c10d \
    --rdzv_endpoint "$HEAD:29500" -m torchtitan.train --module llama3 --config llama3_70b \
    --training.local_batch_size=2 --training.seq_len 8192 \
    --parallelism.tensor_parallel_degree=4 --parallelism.pipeline_parallel_degree=2 \
    --parallelism.pipeline_parallel_schedule Interleaved1F1B \
    --compile.enable --metrics.log_freq 10 --dump_folder out
