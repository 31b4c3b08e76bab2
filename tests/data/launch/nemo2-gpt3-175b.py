"""GPT-3 175B with NeMo 2.0, each part written out."""

import nemo_run as run
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.optimizer import OptimizerConfig
from nemo import lightning as nl
from nemo.collections import llm
from nemo.lightning.pytorch.callbacks.megatron_comm_overlap import MegatronCommOverlapCallback


def trainer(nodes: int = 16, per_node: int = 8):
    ddp = run.Config(
        DistributedDataParallelConfig,
        check_for_nan_in_grad=True,
        grad_reduce_in_fp32=False,
        overlap_grad_reduce=True,
        overlap_param_gather=True,
        average_in_collective=True,
    )
    strategy = run.Config(
        nl.MegatronStrategy,
        tensor_model_parallel_size=4,
        pipeline_model_parallel_size=8,
        virtual_pipeline_model_parallel_size=6,
        context_parallel_size=1,
        sequence_parallel=True,
        gradient_as_bucket_view=True,
        ddp=ddp,
    )
    return run.Config(
        nl.Trainer,
        accelerator="gpu",
        devices=per_node,
        num_nodes=nodes,
        max_steps=100,
        strategy=strategy,
        plugins=run.Config(
            nl.MegatronMixedPrecision,
            precision="bf16-mixed",
            fp8="hybrid",
            fp8_recipe="delayed",
            fp8_params=True,
        ),
        callbacks=[run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True)],
    )


def optimiser():
    config = run.Config(
        OptimizerConfig, optimizer="adam", lr=0.9e-4, bf16=True, use_distributed_optimizer=True
    )
    return run.Config(nl.MegatronOptimizerModule, config=config)


def pretrain_recipe():
    return run.Partial(
        llm.pretrain,
        model=run.Config(llm.GPTModel, config=run.Config(llm.GPTConfig175B)),
        trainer=trainer(),
        data=run.Config(
            llm.MockDataModule, seq_length=2048, global_batch_size=256, micro_batch_size=1
        ),
        optim=optimiser(),
    )
