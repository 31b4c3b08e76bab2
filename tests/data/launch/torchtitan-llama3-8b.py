"""Llama 3.1 8B with 8-bit linear layers on sharded replicas, as a configuration of torchtitan."""

from torchtitan.components.lr_scheduler import LRSchedulersContainer
from torchtitan.components.optimizer import OptimizersContainer
from torchtitan.components.quantization.float8 import Float8LinearConverter
from torchtitan.config import (
    ActivationCheckpointConfig,
    CompileConfig,
    ParallelismConfig,
    TrainingConfig,
)
from torchtitan.models.llama3 import model_registry
from torchtitan.protocols.model_converter import ModelConvertersContainer
from torchtitan.trainer import Trainer

SEQUENCE = 8192


def base() -> Trainer.Config:
    return Trainer.Config(
        hf_assets_path="./assets/hf/Llama-3.1-8B",
        model_spec=model_registry("8B"),
        optimizer=OptimizersContainer.Config(lr=3e-4),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=200),
        training=TrainingConfig(local_batch_size=2, seq_len=SEQUENCE, steps=1000),
        parallelism=ParallelismConfig(data_parallel_replicate_degree=2),
        activation_checkpoint=ActivationCheckpointConfig(mode="full"),
    )


def llama3_8b_float8() -> Trainer.Config:
    config = base()
    config.model_converters = ModelConvertersContainer.Config(
        converters=[Float8LinearConverter.Config(enable_fsdp_float8_all_gather=True)],
    )
    config.compile = CompileConfig(enable=True)
    config.training.a_new_field = 3
    return config
