"""Llama 3 8B with NeMo 2.0, from its recipe."""

import nemo_run as run
from nemo.collections import llm
from nemo.collections.llm.recipes.precision.mixed_precision import bf16_mixed
from nemo.lightning.pytorch.callbacks.megatron_comm_overlap import MegatronCommOverlapCallback
from nemo.utils.exp_manager import TimingCallback

NODES = 2


def slurm_executor(nodes: int) -> run.SlurmExecutor:
    return run.SlurmExecutor(account="research", partition="batch", nodes=nodes, ntasks_per_node=8)


def configure_recipe():
    recipe = llm.llama3_8b.pretrain_recipe(
        dir="/results", name="llama3_8b", num_nodes=NODES, num_gpus_per_node=8
    )
    recipe.trainer.strategy.tensor_model_parallel_size = 2
    recipe.trainer.strategy.context_parallel_size = 1
    recipe.trainer.strategy.sequence_parallel = True
    recipe.trainer.strategy.ddp.overlap_grad_reduce = True
    recipe.trainer.plugins = bf16_mixed()
    recipe.trainer.max_steps = 100
    recipe.trainer.val_check_interval = 50
    recipe.trainer.callbacks = [run.Config(TimingCallback)]
    recipe.trainer.callbacks.append(run.Config(MegatronCommOverlapCallback, tp_comm_overlap=True))
    recipe.data.seq_length = 8192
    recipe.data.global_batch_size = 64
    recipe.data.micro_batch_size = 1
    recipe.log.ckpt.save_optim_on_train_end = False
    return recipe


if __name__ == "__main__":
    recipe = configure_recipe()
    run.run(recipe, executor=slurm_executor(NODES))
