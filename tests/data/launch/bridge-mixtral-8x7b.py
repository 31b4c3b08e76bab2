"""Mixtral 8x7B with Megatron-Bridge: the whole configuration in one file."""

import torch
from megatron.bridge import AutoBridge
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    GPTDatasetConfig,
    LoggerConfig,
    OptimizerConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
)

HF_PATH = "mistralai/Mixtral-8x7B-v0.1"


def pretrain_config(tensor: int = 1, pipeline: int = 4, experts: int = 8) -> ConfigContainer:
    model = AutoBridge.from_hf_pretrained(HF_PATH).to_megatron_provider(load_weights=False)
    model.tensor_model_parallel_size = tensor
    model.pipeline_model_parallel_size = pipeline
    model.virtual_pipeline_model_parallel_size = 8
    model.pipeline_dtype = torch.bfloat16
    model.expert_model_parallel_size = experts
    model.expert_tensor_parallel_size = 1
    model.sequence_parallel = False
    model.moe_token_dispatcher_type = "alltoall"
    model.moe_grouped_gemm = True
    model.moe_permute_fusion = True
    model.attention_backend = "flash"
    model.recompute_granularity = "full"
    model.recompute_method = "uniform"
    model.recompute_num_layers = 1

    return ConfigContainer(
        model=model,
        train=TrainingConfig(train_iters=1000, global_batch_size=256, micro_batch_size=1),
        optimizer=OptimizerConfig(
            optimizer="adam",
            lr=3e-4,
            use_distributed_optimizer=True,
            exp_avg_dtype=torch.float32,
        ),
        scheduler=SchedulerConfig(lr_decay_style="cosine", lr_warmup_iters=100),
        ddp=DistributedDataParallelConfig(
            grad_reduce_in_fp32=True,
            overlap_grad_reduce=True,
            overlap_param_gather=True,
            use_distributed_optimizer=True,
        ),
        dataset=GPTDatasetConfig(seq_length=4096, split="9999,8,2", num_workers=8),
        logger=LoggerConfig(log_interval=10),
        tokenizer=TokenizerConfig(tokenizer_type="HuggingFaceTokenizer", tokenizer_model=HF_PATH),
        checkpoint=CheckpointConfig(save_interval=500, ckpt_format="torch_dist"),
        mixed_precision="bf16_mixed",
    )
