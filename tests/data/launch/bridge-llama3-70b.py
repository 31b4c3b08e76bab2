"""Pre-training of Llama 3 70B with Megatron-Bridge."""

from megatron.bridge.recipes.llama import llama3_70b_pretrain_config
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import bf16_with_fp8_current_scaling_mixed
from megatron.bridge.training.pretrain import pretrain

SEQUENCE = 8 * 1024


def main() -> None:
    cfg = llama3_70b_pretrain_config()

    cfg.model.tensor_model_parallel_size = 4
    cfg.model.pipeline_model_parallel_size = 4
    cfg.model.virtual_pipeline_model_parallel_size = 5
    cfg.model.context_parallel_size = 2
    cfg.model.sequence_parallel = True
    cfg.model.seq_length = SEQUENCE
    cfg.dataset.seq_length = SEQUENCE

    cfg.train.train_iters = 50
    cfg.train.global_batch_size = 128
    cfg.train.micro_batch_size = 1

    cfg.mixed_precision = bf16_with_fp8_current_scaling_mixed()
    cfg.mixed_precision.grad_reduce_in_fp32 = False
    cfg.ddp.grad_reduce_in_fp32 = False
    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)

    cfg.logger.log_interval = 1
    cfg.checkpoint.save = None

    pretrain(config=cfg, forward_step_func=forward_step)


if __name__ == "__main__":
    main()
