#!/bin/bash
#SBATCH --nodes=2
srun python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 \
    --tp 16 --dp 8 --enable-dp-attention --nnodes 2 --node-rank $SLURM_NODEID \
    --dist-init-addr $MASTER:5000 --quantization fp8 \
    --mem-fraction-static 0.85 --chunked-prefill-size 8192 --max-running-requests 512 \
    --trust-remote-code
